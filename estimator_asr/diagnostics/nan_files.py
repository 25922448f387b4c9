"""What MODEL_DIR/nan holds: a directory for each step that was no number, and the list of what was left out.

step-N/report.json       when and where, the figures of the step, the norms of the weights
step-N/config.json       settings of the run
step-N/batch.tfrecord    records of the batch, in the order of its rows
step-N/utterances.tsv    utterance_id, speaker, frames, tokens
step-N/model.ckpt.*      weights and moments before the step
quarantine.tsv           step, epoch_seed, batch, utterance_id

step    epoch_seed      batch   utterance_id
812     3       17      A13_224
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tfrecord_builder import errors, schema

REPORT_FILE, RECORDS_FILE, UTTERANCES_FILE = "report.json", "batch.tfrecord", "utterances.tsv"
CHECKPOINT = "model.ckpt"
_QUARANTINE_COLUMNS = ("step", "epoch_seed", "batch", "utterance_id")


class Utterance(NamedTuple):
    """A row of the batch; frames is 0 for text alone."""

    utterance_id: str
    speaker: str
    frames: int
    tokens: int


class BatchSource(NamedTuple):
    """Where the records of a batch come from.

    Attributes:
        read: takes the position (seed + epoch, index of the batch) and returns the serialised records in the
            order of the rows, of all replicas.
        num_bins, fbank_dtype: as for schema.parse_examples.
    """

    read: Callable[[Sequence[int]], list[bytes]]
    num_bins: Optional[int]
    fbank_dtype: str


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
    records: list[bytes],
    source: BatchSource,
    save: Callable[[str], object],
) -> list[Utterance]:
    """Writes a step's directory, whole or not at all, in place of an older one; returns its utterances.

    Args:
        path: by step_directory.
        report: figures; the norms of the weights are added.
        config_json: text of the config.
        records: of the batch.
        source: says how they are read.
        save: takes a path and writes a checkpoint there.
    """
    temporary = f"{path}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    utterances = _parse(records, source)
    save(os.path.join(temporary, CHECKPOINT))
    weights = weight_norms(os.path.join(temporary, CHECKPOINT))
    _write_text(temporary, REPORT_FILE, json.dumps({**report, **weights}, indent=2) + "\n")
    _write_text(temporary, "config.json", config_json + "\n")
    rows = [list(Utterance._fields), *([str(value) for value in row] for row in utterances)]
    _write_text(temporary, UTTERANCES_FILE, "".join("\t".join(row) + "\n" for row in rows))
    with tf.io.TFRecordWriter(os.path.join(temporary, RECORDS_FILE)) as writer:
        for record in records:
            writer.write(record)
    shutil.rmtree(path, ignore_errors=True)
    os.replace(temporary, path)
    return utterances


def weight_norms(checkpoint: str) -> dict[str, Any]:
    """Returns weight_norms {variable: norm} and weights_not_finite [variable] of a checkpoint."""
    reader = tf.train.load_checkpoint(checkpoint)
    values = {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}
    values = {name: value for name, value in values.items() if np.issubdtype(value.dtype, np.floating)}
    return {
        "weight_norms": {name: figure(np.linalg.norm(np.float64(value))) for name, value in values.items()},
        "weights_not_finite": [name for name, value in values.items() if not np.isfinite(value).all()],
    }


def figure(value: float) -> float | str:
    """Returns a number for JSON, which has no name for inf and NaN: those as text."""
    return float(value) if math.isfinite(value) else str(float(value))


def read_report(path: str) -> dict[str, Any]:
    """Returns report.json of a step's directory.

    Raises:
        errors.UserError: it is not there or not whole.
    """
    file = os.path.join(path, REPORT_FILE)
    try:
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)
    except (OSError, ValueError) as error:
        raise errors.UserError(
            f"{file}: report cannot be read ({error}), expected what training wrote about a bad batch; "
            "give a directory step-N of MODEL_DIR/nan"
        ) from error


def read_utterances(path: str) -> list[Utterance]:
    """Returns utterances.tsv of a step's directory."""
    with open(os.path.join(path, UTTERANCES_FILE), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [Utterance(row[0], row[1], int(row[2]), int(row[3])) for row in rows]


def read_records(path: str) -> list[bytes]:
    """Returns the serialised records of a step's directory.

    Raises:
        errors.UserError: they are not there or not whole.
    """
    file = os.path.join(path, RECORDS_FILE)
    try:
        return list(tf.compat.v1.io.tf_record_iterator(file))
    except (tf.errors.NotFoundError, tf.errors.DataLossError) as error:
        raise errors.UserError(
            f"{file}: records cannot be read ({error.message}), expected those of a bad batch; give a "
            "directory as training wrote it"
        ) from error


def read_quarantine(model_dir: str) -> dict[int, list[tuple[str, ...]]]:
    """Returns {step: rows of it} of quarantine.tsv; empty if there is none."""
    path = os.path.join(directory(model_dir), "quarantine.tsv")
    if not os.path.exists(path):
        return {}
    steps = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]:
            steps.setdefault(int(row[0]), []).append(tuple(row))
    return steps


def add_to_quarantine(
    model_dir: str, step: int, position: Sequence[int], utterances: Sequence[Utterance]
) -> None:
    """Adds the utterances of a step to quarantine.tsv; those of the same step are replaced."""
    steps = read_quarantine(model_dir)
    place = [str(int(number)) for number in (step, *position)]
    steps[step] = [(*place, utterance.utterance_id) for utterance in utterances]
    rows = [_QUARANTINE_COLUMNS, *(row for number in sorted(steps) for row in steps[number])]
    _write_text(directory(model_dir), "quarantine.tsv", "".join("\t".join(row) + "\n" for row in rows))


def _parse(records, source):
    """The records as Utterances, in a graph of its own."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = tf.data.Dataset.from_tensor_slices(records)
        examples = schema.parse_examples(dataset, source.num_bins, source.fbank_dtype)
        example = tf.compat.v1.data.make_one_shot_iterator(examples).get_next()
        frames = example.get("num_frames", tf.constant(0))
        fetches = (example["utterance_id"], example["speaker"], frames, example["num_tokens"])
        rows = [session.run(fetches) for _ in records]
    return [Utterance(row[0].decode(), row[1].decode(), int(row[2]), int(row[3])) for row in rows]


def _write_text(path, file, text):
    target = os.path.join(path, file)
    with open(f"{target}.tmp", "w", encoding="utf-8", newline="") as opened:
        opened.write(text)
    os.replace(f"{target}.tmp", target)
