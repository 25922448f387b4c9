"""The NaN recorder's files in MODEL_DIR/nan: a directory for each recorded step, and a quarantine list.

step-N/report.json       the step's position in the data, loss, gradient norm and learning rate
step-N/config.json       settings of the run
step-N/batch.tfrecord    the batch's records, in the order of its rows
step-N/utterances.tsv    utterance_id, speaker, frames, tokens
step-N/model.ckpt.*      weights and optimizer state before the step
quarantine.tsv           step, epoch_seed, batch, utterance_id; a line for each utterance in a recorded step
"""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfrecord_builder import errors
from tfrecord_builder.data import schema
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import directories, files

CHECKPOINT = "model.ckpt"
_REPORT_FILE, _RECORDS_FILE, _QUARANTINE_FILE = "report.json", "batch.tfrecord", "quarantine.tsv"
_QUARANTINE_COLUMNS = ("step", "epoch_seed", "batch", "utterance_id")


class BatchRow(NamedTuple):
    """A row of a batch; `frames` is 0 if the record has no audio."""

    utterance_id: str
    speaker: str
    frames: int
    tokens: int


def directory(model_dir: str) -> str:
    """Returns MODEL_DIR/nan."""
    return os.path.join(model_dir, "nan")


def step_directory(model_dir: str, step: int) -> str:
    """Returns MODEL_DIR/nan/step-N."""
    return os.path.join(directory(model_dir), f"step-{step}")


def write(
    path: str,
    report: dict[str, Any],
    config_json: str,
    records: Sequence[bytes],
    save: Callable[[str], object],
) -> list[BatchRow]:
    """Writes a step's directory atomically, replacing any older one; returns the batch's utterances.

    `path` comes from step_directory, `records` are serialised, and `save` is called with the path prefix of
    the checkpoint to write.
    """
    utterances = list_utterances(records)
    with directories.writing(path) as incomplete:
        save(os.path.join(incomplete, CHECKPOINT))
        texts = {_REPORT_FILE: json.dumps(report, indent=2) + "\n", "config.json": config_json + "\n"}
        texts["utterances.tsv"] = _to_tsv([BatchRow._fields, *utterances])
        for name, text in texts.items():
            files.write_text(os.path.join(incomplete, name), text)
        with tf.io.TFRecordWriter(os.path.join(incomplete, _RECORDS_FILE)) as writer:
            for record in records:
                writer.write(record)
    return utterances


def list_utterances(records: Sequence[bytes]) -> list[BatchRow]:
    utterances = []
    for record in records:
        features = tf.train.Example.FromString(record).features.feature
        texts = (features[name].bytes_list.value[0].decode("utf-8") for name in ("utterance_id", "speaker"))
        num_frames = sum(features["num_frames"].int64_list.value)
        utterances.append(BatchRow(*texts, num_frames, len(features["token_ids"].int64_list.value)))
    return utterances


def to_json(value: float) -> float | str:
    """Returns the value, or a string if it is NaN or Inf, which JSON cannot represent."""
    return float(value) if math.isfinite(value) else str(float(value))


def read_report(path: str) -> dict[str, Any]:
    """Reads report.json from a step's directory; raises errors.UserError if it is missing or damaged."""
    file = pathlib.Path(path, _REPORT_FILE)
    try:
        return config_json.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(file, "report", error) from error


def read_records(path: str) -> list[bytes]:
    """Reads the records in a step's directory; raises errors.UserError if they are missing or damaged."""
    file = os.path.join(path, _RECORDS_FILE)
    try:
        return list(schema.read_shard(file))
    except (tf.errors.NotFoundError, tf.errors.DataLossError) as error:
        raise _unreadable(file, "records", error.message) from error


def _unreadable(file, what, reason):
    return errors.UserError(
        f"{file}: {what} cannot be read ({reason}); pass a step-N directory in MODEL_DIR/nan"
    )


def read_quarantine(model_dir: str) -> dict[int, list[tuple[str, ...]]]:
    """Returns the rows of quarantine.tsv, keyed by step; empty if the file does not exist."""
    path, steps = pathlib.Path(directory(model_dir), _QUARANTINE_FILE), {}
    lines = path.read_text(encoding="utf-8").split("\n")[1:] if path.exists() else []
    for row in (tuple(line.split("\t")) for line in lines if line):
        steps.setdefault(int(row[0]), []).append(row)
    return steps


def add_to_quarantine(
    model_dir: str, step: int, position: Sequence[int], utterances: Sequence[BatchRow]
) -> None:
    """Adds a step's utterances to quarantine.tsv, replacing any earlier rows for that step.

    `position` is (epoch seed, index of the batch in the epoch).
    """
    steps = read_quarantine(model_dir)
    steps[step] = [(step, *map(int, position), utterance.utterance_id) for utterance in utterances]
    rows = [_QUARANTINE_COLUMNS, *(row for number in sorted(steps) for row in steps[number])]
    files.write_text(os.path.join(directory(model_dir), _QUARANTINE_FILE), _to_tsv(rows))


def _to_tsv(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)
