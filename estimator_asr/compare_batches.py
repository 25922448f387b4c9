"""Lays the batches that --dump_batches wrote beside the records and the recordings that they came from.

    python -m estimator_asr.train --flagfile=flags/manifest/acoustic.flags --data_dir=DATA --model_dir=AM --dump_batches=2
    python -m estimator_asr.compare_batches --model_dir=AM --data_dir=DATA --output_dir=REPORT

prints a line an utterance and a sentence for each mismatch, draws them on REPORT/batches.html, and exits 1 if
there is a mismatch.
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
from estimator_asr.diagnostics import batch_comparison, batch_dump, batch_page, recording_comparison
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

PAGE_FILE = "batches.html"
_SPLIT = "train"


@dataclasses.dataclass(frozen=True)
class CompareBatchesConfig:
    """What to compare."""

    model_dir: Optional[str] = config_flags.setting(None, "model directory, trained with --dump_batches")
    data_dir: tuple[str, ...] = config_flags.setting((), "data directories, comma separated, as in training")
    output_dir: Optional[str] = config_flags.setting(None, "where batches.html goes")

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
    """The data that the batches are read from again."""

    infos: Sequence[dataset_info.DatasetInfo]
    dirs: Sequence[str]
    source: splits.Split
    tokens: vocabulary.Vocabulary


class Compared(NamedTuple):
    """A batch: its title, its utterances for the page, and what is printed of each."""

    title: str
    utterances: Sequence[batch_page.Utterance]
    lines: Sequence[str]

    @property
    def mismatches(self) -> list[str]:
        return [f"{each.utterance_id}: {what}" for each in self.utterances for what in each.mismatches]


def compare(config: CompareBatchesConfig) -> list[Compared]:
    """Compares all dumps and writes the page.

    Raises:
        errors.UserError: there are no dumps, one is damaged, or the data is another than was dumped from.
    """
    model = model_directory.open_model_directory(config.model_dir)
    directory = os.path.join(config.model_dir, batch_dump.DIRECTORY)
    paths = batch_dump.list_dumps(directory)
    if not paths:
        raise errors.UserError(
            f"{directory}: there are no batches, expected some; train with --dump_batches=2"
        )
    data = _open_data(config.data_dir, model)
    compared = [_compare_dump(batch_dump.read(path), data) for path in paths]
    files.make_directory(config.output_dir)
    page = os.path.join(config.output_dir, PAGE_FILE)
    batch_page.write(page, [(each.title, each.utterances) for each in compared])
    return compared


def _open_data(data_dirs, model):
    infos = dataset_info.load_all(data_dirs)
    for info, path in zip(infos, data_dirs):
        model_directory.check_data(model.path, model.config, info, path)
    source = splits.read_split(infos, data_dirs, _SPLIT, model.config.model)
    return Data(infos, data_dirs, source, model.tokens)


def _compare_dump(dump: batch_dump.Dump, data: Data) -> Compared:
    config = _read_config(dump)
    if dump.data != batch_dump.fingerprint(data.infos, _SPLIT):
        raise errors.UserError(
            f"{','.join(data.dirs)}: the shards of {_SPLIT} are others than {dump.path} was dumped from, "
            "expected the same; give the --data_dir of that training, in the same order."
        )
    is_masked = config.input.spec_augment and config.model == "acoustic"
    with damage.explain(data.dirs, _SPLIT):
        rows = batch_comparison.compare(dump, _read_source(dump, config, data), is_masked)
    paths = [path for info, root in zip(data.infos, data.dirs) for path in _shard_paths(info, root)]
    found = recordings.find_all(paths, [row.utterance_id for row in rows])
    shown = list(_show(rows, found, config, data))
    part = f", first of {dump.num_replicas} replicas" if dump.num_replicas > 1 else ""
    title = (
        f"{os.path.basename(dump.path)}: step {dump.step}, seed {dump.position[0]}, "
        f"batch {dump.position[1]}{part}, {len(rows)} utterances"
    )
    lines = [f"  {each.utterance_id}  {_join(each.facts)}" for each in shown]
    return Compared(title, shown, lines)


def _read_config(dump):
    try:
        return config_json.from_json_dict(experiment.ExperimentConfig, json.loads(dump.config))
    except ValueError as error:
        raise errors.UserError(
            f"{dump.path}: its settings are not those of this version ({error}), expected a dump of it; "
            "delete the file and train again with --dump_batches."
        ) from None


def _shard_paths(info, data_dir):
    return info.shard_paths(data_dir, _SPLIT) if _SPLIT in info.splits else []


def _read_source(dump, config, data):
    records = batch_source.read_batch(
        data.infos,
        data.dirs,
        _SPLIT,
        config.input,
        model=config.model,
        position=dump.position,
    )
    features, labels = batch_source.batch_of(
        records,
        config.input,
        model=config.model,
        num_bins=data.source.num_bins,
        fbank_dtype=data.source.fbank_dtype,
        position=dump.position,
        shard=batches.Shard(0, dump.num_replicas),
    )
    own = records[:: dump.num_replicas]
    return batch_comparison.Source(list(_parse(own, data.source)), features, labels)


def _parse(records, source) -> Iterator[dict]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = tf.data.Dataset.from_tensor_slices(records)
        examples = schema.parse_examples(dataset, source.num_bins, source.fbank_dtype)
        example = tf.compat.v1.data.make_one_shot_iterator(examples).get_next()
        for _ in records:
            yield session.run(example)


def _show(rows, found, config, data) -> Iterator[batch_page.Utterance]:
    if config.frontend is None:
        for row in rows:
            yield _describe(row, data, None, recording_comparison.Result())
        return
    with recording_comparison.Extractor(config.frontend, data.source.fbank_dtype) as extractor:
        for row in rows:
            recording = found.get(row.utterance_id)
            yield _describe(row, data, recording, extractor.compare(row.record, recording))


def _describe(row, data, recording, result) -> batch_page.Utterance:
    facts = {"labels": str(len(row.ids))}
    if row.batch is not None:
        facts["frames"] = str(len(row.batch))
        facts["masked"] = "unknown" if row.masked is None else f"{100 * row.masked.mean():.1f} %"
        facts["recording"] = result.note or _differs(result)
    known = [data.tokens.tokens[each] if 0 <= each < data.tokens.size else f"({each})" for each in row.ids]
    return batch_page.Utterance(
        row.utterance_id,
        row.transcript,
        row.pronunciation,
        " ".join(known),
        facts,
        {} if row.batch is None else batch_page.draw_features(row.record, row.batch),
        _url(recording),
        [*row.mismatches, *filter(None, [result.mismatch])],
    )


def _differs(result):
    return "of another length" if result.difference is None else f"differs by at most {result.difference:.1e}"


def _url(recording):
    """A link that a browser on this machine plays, from where the utterance begins to where it ends."""
    if recording is None or files.is_remote(recording.path):
        return ""
    end = "" if recording.seconds is None else f",{recording.start_seconds + recording.seconds:g}"
    return f"{pathlib.Path(recording.path).absolute().as_uri()}#t={recording.start_seconds:g}{end}"


def _join(facts):
    return ", ".join(f"{name} {fact}" for name, fact in facts.items())


def define_flags() -> None:
    """Defines a flag for every field of the config."""
    config_flags.define(CompareBatchesConfig)


def main(argv: list[str]) -> int:
    """Prints what was compared; gives 1 if there is a mismatch."""
    del argv  # no words are accepted
    tf.get_logger().setLevel("ERROR")
    config = config_flags.from_flags(CompareBatchesConfig)
    compared = compare(config)
    for batch in compared:
        print("\n".join([batch.title, *batch.lines]))
    print(f"page: {os.path.join(config.output_dir, PAGE_FILE)}")
    wrong = [f"{batch.title.split(':')[0]}: {what}" for batch in compared for what in batch.mismatches]
    print("\n".join(wrong or ["all as in the records"]))
    return int(bool(wrong))


if __name__ == "__main__":
    errors.run_program(main, define_flags)
