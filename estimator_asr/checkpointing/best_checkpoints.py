"""MODEL_DIR/best: the checkpoints with the lowest error rate on dev, kept whatever the Saver deletes.

best/ is itself a model directory (config.json, vocabularies, a state that names the best one), so evaluate
and export open it. best_checkpoints.json lists what is in it, best first. Files are hard links, copies where
the file system has none; one that is read under a lock (checkpoint_locks) is left until nobody reads it.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from absl import logging

from estimator_asr import estimator_api, model_directory
from estimator_asr.checkpointing import checkpoints, links, locks
from tfrecord_builder import errors, files

DIRECTORY = "best"
REGISTRY_FILE = "best_checkpoints.json"


class Entry(NamedTuple):
    """A kept checkpoint; `figures` are all of its evaluation, NaN none of them."""

    step: int
    error_rate: float
    figures: dict[str, float]


def read(model_dir: str) -> list[Entry]:
    """Returns what is kept of a model directory, best first; entries whose files are gone are left out.

    Raises:
        errors.UserError: the registry is not what this module writes.
    """
    path = os.path.join(model_dir, DIRECTORY, REGISTRY_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            entries = [Entry(row["step"], row["error_rate"], row["figures"]) for row in json.load(file)]
        return [entry for entry in _sort(entries) if os.path.exists(f"{prefix(model_dir, entry.step)}.index")]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError) as error:
        raise errors.UserError(
            f"{path}: best checkpoints cannot be read ({error!r}), expected what training wrote; "
            f"restore the file, or move {os.path.dirname(path)} away to begin with none."
        ) from error


def refuse_training(model_dir: str) -> None:
    """Checks that a directory to train in is not the best/ of another.

    Raises:
        errors.UserError: it is.
    """
    if os.path.exists(os.path.join(model_dir, REGISTRY_FILE)):
        raise errors.UserError(
            f"{model_dir}: holds the best checkpoints of another directory, expected one to train in; give "
            f"that other --model_dir to go on, or a new one and --warm_start_from={model_dir}"
        )


def prefix(model_dir: str, step: int) -> str:
    """Returns the prefix of a kept checkpoint."""
    return checkpoints.prefix_of(os.path.join(model_dir, DIRECTORY), step)


def find_error_rate(figures: Mapping[str, float], name: str) -> float:
    """Returns the error rate of an evaluation that may be the best one; infinity if any figure is NaN."""
    values = [float(value) for value in figures.values()]
    return math.inf if any(map(math.isnan, values)) else float(figures.get(name, math.inf))


class BestCheckpoints(estimator_api.Exporter):
    """Keeps the checkpoint of an evaluation if it is among the best."""

    name = "best_checkpoints"

    def __init__(self, model: model_directory.ModelDirectory, error_rate: str):
        self._model = model
        self._error_rate = error_rate

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        rate = find_error_rate(eval_result, self._error_rate)
        if math.isinf(rate):
            return
        figures = {name: float(value) for name, value in eval_result.items()}
        entry = Entry(int(eval_result["global_step"]), rate, figures)
        try:
            _keep(self._model, checkpoint_path, entry)
        except OSError as error:  # no reason to end a night's training
            logging.warning(
                "%s: cannot be kept among the best (%s); training continues", checkpoint_path, error.strerror
            )


def _keep(model, checkpoint, entry):
    """Each step leaves a directory that is whole: files, then the list, then the state; removal last."""
    others = [other for other in read(model.path) if other.step != entry.step]
    kept = _sort([*others, entry])[: model.config.stopping.keep_best_checkpoints]
    directory = os.path.join(model.path, DIRECTORY)
    model_directory.copy_description(model, directory)
    if entry in kept:
        links.link(checkpoint, directory)
    with files.writing(os.path.join(directory, REGISTRY_FILE)) as path, open(path, "w") as file:
        json.dump([kept_entry._asdict() for kept_entry in kept], file, indent=1)
    prefixes = [prefix(model.path, kept_entry.step) for kept_entry in kept]
    checkpoints.write_state(directory, prefixes[0], prefixes)
    for candidate in checkpoints.list_checkpoints(directory):
        if candidate not in prefixes:
            locks.remove_unless_read(candidate, functools.partial(_remove, candidate))


def _sort(entries):
    return sorted(entries, key=lambda entry: (entry.error_rate, entry.step))


def _remove(checkpoint):
    """The .index first: without it nobody takes the rest for a checkpoint."""
    for path in sorted(checkpoints.list_files(checkpoint), key=lambda path: not path.endswith(".index")):
        os.remove(path)
