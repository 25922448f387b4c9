"""Compares the batches that --dump_batches wrote with their records and recordings.

    python -m estimator_asr.train --flagfile=flags/manifest/acoustic.flags --data_dir=DATA --model_dir=AM --dump_batches=2
    python -m estimator_asr.compare_batches --model_dir=AM --data_dir=DATA --output_dir=REPORT

prints one line per utterance and one per mismatch, writes the same to REPORT/batches.txt, and exits 1 if there
is a mismatch.
"""  # noqa: E501

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow loads

import tensorflow as tf

from estimator_asr import experiment, model_directory
from estimator_asr.diagnostics import batch_comparison, batch_dump, recording_comparison
from estimator_asr.inputs import batch_source, batches, damage, splits
from tfrecord_builder import (
    config_flags,
    config_json,
    dataset_info,
    errors,
    files,
    recordings,
    schema,
    vocabulary,
)

REPORT_FILE = "batches.txt"
_SPLIT = "train"


@dataclasses.dataclass(frozen=True)
class CompareBatchesConfig:
    """Flags of the program."""

    model_dir: Optional[str] = config_flags.setting(None, "model directory, trained with --dump_batches")
    data_dir: tuple[str, ...] = config_flags.setting((), "data directories, comma separated, as in training")
    output_dir: Optional[str] = config_flags.setting(None, f"directory of the report {REPORT_FILE}")

    def __post_init__(self):
        config_flags.validate(self)
        for name in ("model_dir", "data_dir", "output_dir"):
            if not getattr(self, name):
                raise errors.UserError(f"compare_batches: --{name} is missing; give a directory")
        if os.path.exists(self.output_dir) and not os.path.isdir(self.output_dir):
            raise errors.UserError(
                f"compare_batches: --output_dir={self.output_dir} is a file, expected a directory"
            )


class Data(NamedTuple):
    """The data to compare with."""

    infos: Sequence[dataset_info.DatasetInfo]
    dirs: Sequence[str]
    source: splits.Split
    tokens: vocabulary.Vocabulary


class Comparison(NamedTuple):
    """One batch: lines to print, and mismatches as sentences."""

    lines: Sequence[str]
    mismatches: Sequence[str]


def compare(config: CompareBatchesConfig) -> list[Comparison]:
    """Compares all dumps of a model directory.

    Raises:
        errors.UserError: there are no dumps, one is damaged, or the data is not that of the dump.
    """
    model = model_directory.open_model_directory(config.model_dir)
    directory = os.path.join(config.model_dir, batch_dump.DIRECTORY)
    paths = batch_dump.list_dumps(directory)
    if not paths:
        raise errors.UserError(f"{directory}: contains no batches; train with --dump_batches=2")
    infos = dataset_info.load_all(config.data_dir)
    for info, path in zip(infos, config.data_dir):
        model_directory.check_data(model.path, model.config, info, path)
    source = splits.read_split(infos, config.data_dir, _SPLIT, model.config.spec)
    data = Data(infos, config.data_dir, source, model.tokens)
    return [_compare_dump(batch_dump.read(path), data) for path in paths]


def _compare_dump(dump: batch_dump.Dump, data: Data) -> Comparison:
    config = _read_config(dump)
    if dump.data != data.source.sha256:
        raise errors.UserError(
            f"{','.join(data.dirs)}: the shards of {_SPLIT} differ from those of {dump.path}; give the "
            "--data_dir of that training, in the same order."
        )
    is_masked = config.input.spec_augment and data.source.num_bins is not None
    with damage.explain(data.dirs, _SPLIT):
        rows = batch_comparison.compare(dump, _read_source(dump, config, data), is_masked)
    name, (seed, number) = os.path.basename(dump.path), dump.position
    part = f", first of {dump.num_replicas} replicas" if dump.num_replicas > 1 else ""
    lines = [f"{name}: step {dump.step}, seed {seed}, batch {number}{part}, {len(rows)} utterances"]
    mismatches = []
    for row, result in zip(rows, _compare_recordings(rows, config, data)):
        lines.append(_describe(row, result, data.tokens))
        found = [*row.mismatches, *filter(None, [result.mismatch])]
        mismatches += [f"{name}: {row.utterance_id}: {mismatch}" for mismatch in found]
    return Comparison(lines, mismatches)


def _read_config(dump):
    try:
        return config_json.from_json_dict(experiment.ExperimentConfig, json.loads(dump.config))
    except ValueError as error:
        raise errors.UserError(
            f"{dump.path}: was written by another version ({error}); delete it and train again with "
            "--dump_batches."
        ) from None


def _read_source(dump, config, data):
    records = batch_source.read_batch(
        data.infos,
        data.dirs,
        _SPLIT,
        config.input,
        spec=config.spec,
        position=dump.position,
    )
    features, labels = batch_source.batch_of(
        records,
        config.input,
        spec=config.spec,
        num_bins=data.source.num_bins,
        fbank_dtype=data.source.fbank_dtype,
        position=dump.position,
        shard=batches.Shard(0, dump.num_replicas),
    )
    examples = list(_parse(records[:: dump.num_replicas], data.source))
    return batch_comparison.Source(examples, features, labels)


def _parse(records, source) -> Iterator[dict]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = tf.data.Dataset.from_tensor_slices(records)
        examples = schema.parse_examples(dataset, source.num_bins, source.fbank_dtype)
        example = tf.compat.v1.data.make_one_shot_iterator(examples).get_next()
        for _ in records:
            yield session.run(example)


def _compare_recordings(rows, config, data) -> Iterator[recording_comparison.Result]:
    if config.frontend is None:
        return iter([recording_comparison.Result("")] * len(rows))
    having = [(info, path) for info, path in zip(data.infos, data.dirs) if _SPLIT in info.splits]
    shards = [shard for info, path in having for shard in info.shard_paths(path, _SPLIT)]
    found = recordings.find_all(shards, [row.utterance_id for row in rows])
    pairs = [(row.record, found.get(row.utterance_id)) for row in rows]
    return recording_comparison.compare(pairs, config.frontend, data.source.fbank_dtype)


def _describe(row, result, tokens) -> str:
    labels = [tokens.tokens[each] if 0 <= each < tokens.size else f"({each})" for each in row.ids]
    facts = [f"  {row.utterance_id}  {row.transcript}  {' '.join(labels)}  labels {len(labels)}"]
    if row.record is not None:
        masked = "unknown" if row.masked_fraction is None else f"{100 * row.masked_fraction:.1f} %"
        facts += [f"frames {len(row.record)}", f"masked {masked}", f"recording {result.note}"]
    return ", ".join(facts)


def define_flags() -> None:
    """Defines a flag for every field of the config."""
    config_flags.define(CompareBatchesConfig)


def main(argv: list[str]) -> int:
    """Prints and writes the comparison; returns 1 if there is a mismatch."""
    del argv  # errors.run_program refuses further words
    tf.get_logger().setLevel("ERROR")
    config = config_flags.from_flags(CompareBatchesConfig)
    compared = compare(config)
    mismatches = [mismatch for batch in compared for mismatch in batch.mismatches]
    lines = [line for batch in compared for line in batch.lines]
    text = "\n".join([*lines, *(mismatches or ["all as in the records"])])
    files.make_directory(config.output_dir)
    with files.writing(os.path.join(config.output_dir, REPORT_FILE)) as temporary:
        pathlib.Path(temporary).write_text(f"{text}\n", encoding="utf-8")
    print(text)
    return int(bool(mismatches))


if __name__ == "__main__":
    errors.run_program(main, define_flags)
