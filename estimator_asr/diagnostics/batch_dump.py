"""Batch dumps: the first batches of a run as the model_fn gets them, MODEL_DIR/batches/batch-00000.npz ...

A file holds features/<name> and labels/<name> with their own types and shapes, step (updates before this
one), num_replicas (with several, the arrays are the first replica's part), config (config.json of the run as
text) and data (digest of the split). features/seed is the position: (seed + epoch, batch of the epoch).
"""

from __future__ import annotations

import dataclasses
import os
import re
import zipfile
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api
from tfrecord_builder import errors, files

DIRECTORY = "batches"
_NAME = re.compile(r"batch-(\d{5,})\.npz")


class Dump(NamedTuple):
    """The content of a file."""

    path: str
    features: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    step: int
    num_replicas: int
    config: str
    data: str

    @property
    def position(self) -> tuple[int, int]:
        """(seed + epoch, batch of the epoch)."""
        return tuple(int(number) for number in self.features["seed"])


@dataclasses.dataclass(eq=False)
class BatchDumpHook(estimator_api.SessionRunHook):
    """Writes the batches of the first steps of a run; numbers continue after existing files."""

    features: Mapping[str, tf.Tensor]  # of the model_fn
    labels: Mapping[str, tf.Tensor]
    number: tf.Tensor  # int64 [], updates before this step
    model_dir: str  # parent of the directory of the files
    num_batches: int  # how many to write
    num_replicas: int  # that share a step
    config: str  # config.json of the run as text
    data: str  # digest of the split (splits.Split.sha256)

    def begin(self):
        self._left = self.num_batches
        self._tensors = {f"features/{name}": tensor for name, tensor in self.features.items()}
        self._tensors.update(
            {f"labels/{name}": tensor for name, tensor in self.labels.items()}, step=self.number
        )

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self._tensors if self._left else {})

    def after_run(self, run_context, run_values):
        if self._left:
            self._left -= 1
            facts = {"num_replicas": self.num_replicas, "config": self.config, "data": self.data}
            path = write(os.path.join(self.model_dir, DIRECTORY), {**run_values.results, **facts})
            logging.info("%s: batch of step %d", path, run_values.results["step"])


def write(directory: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Writes the next file atomically; returns its path."""
    os.makedirs(directory, exist_ok=True)
    number = max(map(_number, list_dumps(directory)), default=-1) + 1
    path = os.path.join(directory, f"batch-{number:05d}.npz")
    with files.writing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)
    return path


def list_dumps(directory: str) -> list[str]:
    """Returns the paths of the files in the order in which they were written."""
    names = filter(_NAME.fullmatch, os.listdir(directory) if os.path.isdir(directory) else [])
    return sorted((os.path.join(directory, name) for name in names), key=_number)


def read(path: str) -> Dump:
    """Reads a file that BatchDumpHook wrote.

    Raises:
        errors.UserError: the file is truncated or not a batch dump.
    """
    try:
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
        facts = {name: arrays.pop(name).item() for name in ("step", "num_replicas", "config", "data")}
        parts = {kind: _select(arrays, f"{kind}/") for kind in ("features", "labels")}
        return Dump(path, **parts, **facts)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise errors.UserError(
            f"{path}: is not a batch dump ({type(error).__name__}: {error}), perhaps because it is "
            "truncated; delete it and train again with --dump_batches."
        ) from None


def _number(path):
    return int(_NAME.search(path)[1])


def _select(arrays, prefix):
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
