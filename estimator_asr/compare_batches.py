"""Compares the batches that --dump_batches wrote with their records.

    python -m estimator_asr.train --flagfile=... --data_dir=DATA --model_dir=AM --dump_batches=2
    python -m estimator_asr.compare_batches --model_dir=AM --data_dir=DATA --output_dir=REPORT

prints one line per utterance and one per mismatch, writes the same to REPORT/batches.txt, and exits 1 if
there is a mismatch. `tfrecord_builder.verify --sample` compares the records with their recordings.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from tfrecord_builder import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf

from estimator_asr import experiment, model_directory
from estimator_asr.diagnostics import batch_comparison, batch_dump
from estimator_asr.inputs import batches, input_fn, splits
from estimator_asr.scoring.reports import report
from tfrecord_builder import config_flags, config_json, dataset_info, errors, files, program, schema

REPORT_FILE = "batches.txt"
_SPLIT = "train"


@dataclasses.dataclass(frozen=True)
class CompareBatchesConfig(config_flags.Checked):
    """Flags of the program."""

    model_dir: str = config_flags.setting(
        "", "model directory, trained with --dump_batches", required=True, local=True
    )
    data_dir: tuple[str, ...] = config_flags.setting(
        (), "data directories, comma separated, as in training", required=True
    )
    output_dir: str = config_flags.setting(
        "", f"directory of the report {REPORT_FILE}", required=True, local=True
    )


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
    return [_compare_dump(batch_dump.read(path), infos, config.data_dir, model.tokens) for path in paths]


def _compare_dump(dump, infos, data_dirs, tokens) -> Comparison:
    config = _read_config(dump)
    split = splits.read_split(infos, data_dirs, _SPLIT, config.spec)
    if dump.data != split.sha256:
        raise errors.UserError(
            f"{','.join(data_dirs)}: the shards of {_SPLIT} differ from those of {dump.path}, or an earlier "
            "version wrote it; give the --data_dir of that training, in the same order, or delete it and "
            "train again with --dump_batches."
        )
    with splits.explain_damage(data_dirs, _SPLIT):
        bucketing = split.bucket(config.input, dump.num_replicas)
        records = input_fn.read_batch(split, bucketing, config.input, dump.position)
        source = _parse(records, split, dump, config)
    is_masked = config.input.spec_augment and config.spec.reads_audio
    rows = batch_comparison.compare(dump, source, is_masked)
    name, (seed, number) = os.path.basename(dump.path), dump.position
    part = f", first of {dump.num_replicas} replicas" if dump.num_replicas > 1 else ""
    title = f"{name}: step {dump.step}, seed {seed}, batch {number}{part}, {len(rows)} utterances"
    mismatches = [f"{name}: {row.utterance_id}: {mismatch}" for row in rows for mismatch in row.mismatches]
    return Comparison([title, *(_describe(row, tokens) for row in rows)], mismatches)


def _read_config(dump):
    try:
        return config_json.from_json_dict(experiment.ExperimentConfig, json.loads(dump.config))
    except ValueError as error:
        raise errors.UserError(
            f"{dump.path}: was written by another version ({error}); delete it and train again with "
            "--dump_batches."
        ) from None


def _parse(records, split, dump, config) -> batch_comparison.Source:
    first = batches.Shard(0, dump.num_replicas)
    features, labels = input_fn.batch_of(records, split, config.input, dump.position, first)
    own = records[:: dump.num_replicas]
    examples = input_fn.read_elements(
        lambda: schema.parse_examples(
            tf.data.Dataset.from_tensor_slices(own), split.num_bins, split.fbank_dtype
        )
    )
    return batch_comparison.Source(list(examples), features, labels)


def _describe(row, tokens) -> str:
    labels = [tokens.tokens[each] if 0 <= each < tokens.size else f"({each})" for each in row.ids]
    line = f"  {row.utterance_id}  {row.transcript}  {' '.join(labels)}  labels {len(labels)}"
    if row.num_frames is None:
        return line
    masked = "unknown" if row.masked_fraction is None else f"{100 * row.masked_fraction:.1f} %"
    return f"{line}, frames {row.num_frames}, masked {masked}"


def main(config: CompareBatchesConfig) -> int:
    """Prints and writes the comparison; returns 1 if there is a mismatch."""
    tf.get_logger().setLevel("ERROR")
    report.create_output_dir(config.output_dir)
    compared = compare(config)
    mismatches = [mismatch for batch in compared for mismatch in batch.mismatches]
    lines = [line for batch in compared for line in batch.lines]
    text = "\n".join([*lines, *(mismatches or ["all as in the records"])])
    files.write_text(os.path.join(config.output_dir, REPORT_FILE), f"{text}\n")
    print(text)
    return int(bool(mismatches))


if __name__ == "__main__":
    program.run(main, CompareBatchesConfig)
