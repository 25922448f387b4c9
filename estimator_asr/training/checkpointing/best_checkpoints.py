"""Keeps the checkpoints with the lowest error rates on dev in MODEL_DIR/best, where no Saver deletes them.

best/ is itself a model directory (config.json, vocabularies, a state file that names the best checkpoint), so
evaluate and export can open it. best_checkpoints.json lists its checkpoints, best first. While another
process is reading a checkpoint, the checkpoint is kept, and a later evaluation deletes it.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from absl import logging

from estimator_asr.experiment import checkpoints, model_directory
from estimator_asr.training.checkpointing import evaluation_log
from tfrecord_builder import errors
from tfrecord_builder.storage import locks

DIRECTORY = "best"
REGISTRY_FILE = "best_checkpoints.json"


class KeptCheckpoint(NamedTuple):
    """One of the best checkpoints, with all metrics from its evaluation, none of which is NaN."""

    step: int
    error_rate: float
    metrics: dict[str, float]


def read_best(model_dir: str) -> list[KeptCheckpoint]:
    """Returns the checkpoints in best/, best first. Raises errors.UserError if the registry is damaged."""
    directory = os.path.join(model_dir, DIRECTORY)
    advice = f"move {directory} away to start without best checkpoints"
    entries = evaluation_log.read_rows(os.path.join(directory, REGISTRY_FILE), KeptCheckpoint, advice)
    return [entry for entry in _sort(entries) if os.path.exists(f"{prefix(model_dir, entry.step)}.index")]


def refuse_training(model_dir: str) -> None:
    """Raises errors.UserError if `model_dir` is the best/ directory of another model directory."""
    if os.path.exists(os.path.join(model_dir, REGISTRY_FILE)):
        raise errors.UserError(
            f"--model_dir: {model_dir} holds the best checkpoints of another model directory; pass that "
            f"directory to continue its training, or a new one with --warm_start_from={model_dir}"
        )


def prefix(model_dir: str, step: int) -> str:
    """Returns the path prefix in best/ for the checkpoint of a step."""
    return checkpoints.prefix_of(os.path.join(model_dir, DIRECTORY), step)


def keep_if_best(
    model: model_directory.ModelDirectory, checkpoint: str, metrics: Mapping[str, float]
) -> None:
    """Keeps an evaluated checkpoint (path prefix) if it is among the best; metrics include global_step."""
    metrics = {name: float(value) for name, value in metrics.items()}
    rate = metrics[model.config.spec.error_rate]
    if math.isinf(rate) or any(map(math.isnan, metrics.values())):
        return
    try:
        _keep(model, checkpoint, KeptCheckpoint(int(metrics["global_step"]), rate, metrics))
    except OSError as error:  # a failed copy is no reason to abort a long training run
        message = "%s cannot be added to the best checkpoints (%s); training continues"
        logging.warning(message, checkpoint, error.strerror)


def _keep(model, checkpoint, entry):
    """Writes the checkpoint, registry and state file before any deletion, so that best/ is always valid."""
    others = [other for other in read_best(model.path) if other.step != entry.step]
    best = _sort([*others, entry])[: model.config.stopping.keep_best_checkpoints]
    directory = os.path.join(model.path, DIRECTORY)
    model_directory.copy_description(model, directory)
    if entry in best:
        checkpoints.link(checkpoint, directory)
    evaluation_log.write_rows(os.path.join(directory, REGISTRY_FILE), best)
    prefixes = [prefix(model.path, best_entry.step) for best_entry in best]
    checkpoints.write_state(directory, prefixes[0], prefixes)
    for candidate in checkpoints.list_checkpoints(directory):
        if candidate not in prefixes:
            locks.remove_unless_read(f"{candidate}.index", functools.partial(_remove, candidate))


def _sort(entries):
    return sorted(entries, key=lambda entry: (entry.error_rate, entry.step))


def _remove(checkpoint):
    # Delete the .index first: without it, the remaining files are not used as a checkpoint.
    for path in sorted(checkpoints.list_files(checkpoint), key=lambda path: not path.endswith(".index")):
        os.remove(path)
