"""The first batches of a run as the model_fn gets them, in MODEL_DIR/batches/batch-00000.npz and so on.

A file holds features/<name> and labels/<name> with their own types and shapes, step (updates made before),
num_replicas (with several, the arrays are the first one's part of the batch), config (config.json of the run)
and data (fingerprint of the split). Its position is features/seed: (seed + epoch, batch of the epoch).
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api
from tfrecord_builder import dataset_info, errors, files

DIRECTORY = "batches"
_NAME = re.compile(r"batch-(\d{5,})\.npz")
_FACTS = ("step", "num_replicas", "config", "data")


class Dump(NamedTuple):
    """What a file holds."""

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


class BatchDumpHook(estimator_api.SessionRunHook):
    """Writes what the steps of this run are fed; numbers go on behind the files that are there."""

    def __init__(
        self,
        features: Mapping[str, tf.Tensor],
        labels: Mapping[str, tf.Tensor],
        number: tf.Tensor,
        *,
        model_dir: str,
        num_batches: int,
        num_replicas: int,
        config: str,
        data: str,
    ):
        """Takes the tensors of a step.

        Args:
            features, labels: as the model_fn got them.
            number: int64 [], updates made before this step.
            model_dir: where the directory of the dumps is.
            num_batches: how many to write.
            num_replicas: that share a step.
            config: config.json of the run as text.
            data: fingerprint of what is read.
        """
        self._tensors = {f"features/{name}": tensor for name, tensor in features.items()}
        self._tensors.update({f"labels/{name}": tensor for name, tensor in labels.items()})
        self._tensors["step"] = number
        self._facts = {"num_replicas": num_replicas, "config": config, "data": data}
        self._directory = os.path.join(model_dir, DIRECTORY)
        self._left = num_batches

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self._tensors if self._left else {})

    def after_run(self, run_context, run_values):
        if self._left:
            self._left -= 1
            path = write(self._directory, {**run_values.results, **self._facts})
            logging.info("%s: the batch of step %d", path, run_values.results["step"])


def write(directory: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Writes a file behind those that are there, whole or not at all; returns its path."""
    os.makedirs(directory, exist_ok=True)
    last = max(
        (int(_NAME.fullmatch(os.path.basename(path))[1]) for path in list_dumps(directory)), default=-1
    )
    path = os.path.join(directory, f"batch-{last + 1:05d}.npz")
    with files.writing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)
    return path


def list_dumps(directory: str) -> list[str]:
    """Returns the paths of the files, in the order in which they were written."""
    paths = glob.glob(os.path.join(glob.escape(directory), "batch-*.npz"))
    return sorted((path for path in paths if _number(path) is not None), key=_number)


def _number(path):
    found = _NAME.fullmatch(os.path.basename(path))
    return int(found[1]) if found else None


def read(path: str) -> Dump:
    """Reads a file that BatchDumpHook wrote.

    Raises:
        errors.UserError: it is cut short or is no such file.
    """
    try:
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
        facts = {name: arrays.pop(name).item() for name in _FACTS}
        parts = {kind: _select(arrays, kind) for kind in ("features", "labels")}
        return Dump(path, **parts, **facts)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise errors.UserError(
            f"{path}: is no dump of a batch ({type(error).__name__}: {error}), expected what "
            "--dump_batches wrote; it may be cut short: delete it and train again with --dump_batches."
        ) from None


def _select(arrays, kind):
    prefix = f"{kind}/"
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def fingerprint(infos: Sequence[dataset_info.DatasetInfo], split: str) -> str:
    """Returns a hex digest of the split: names, records, bytes and hashes of all of its shards."""
    shards = [shard for info in infos if split in info.splits for shard in info.splits[split].shards]
    text = repr([(shard.file, shard.num_records, shard.num_bytes, shard.sha256) for shard in shards])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
