"""Guards the model directory during training: checks it, locks it, and removes unused checkpoints."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from collections.abc import Iterator
from typing import Optional

from estimator_asr.training.checkpointing import best_checkpoints
from estimator_asr.training.distributed import cluster as cluster_lib
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info
from tfrecord_builder.storage import locks

# TensorFlow makes every worker except the chief write its checkpoints here, where nothing reads them.
_COPIES = "tmp_worker_{}"
_LOCK_FILE = "training.lock"
# An NFSv4 server releases a dead machine's locks after 90 s by default.
CLUSTER_WAIT_SECONDS = 120.0
# Files that never occur in a model directory, mapped to what a directory with such a file contains.
_OTHERS = {dataset_info.INFO_FILE: "data", "saved_model.pb": "an export", "*[0-9]/saved_model.pb": "exports"}


def check_usable(model_dir: str) -> None:
    """Raises errors.UserError if `model_dir` is a file, or holds data, an export or best checkpoints."""
    if os.path.exists(model_dir) and not os.path.isdir(model_dir):
        raise errors.UserError(f"--model_dir: {model_dir} is a file, not a directory; choose another path")
    best_checkpoints.refuse_training(model_dir)
    for pattern, content in _OTHERS.items():
        for path in glob.glob(os.path.join(glob.escape(model_dir), pattern)):
            raise errors.UserError(
                f"--model_dir: {model_dir} holds {content} ({os.path.relpath(path, model_dir)}), so it "
                "is not a model directory; choose a model directory or a new path. Nothing was changed."
            )


@contextlib.contextmanager
def lock_directory(model_dir: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Creates the directory if it is missing, and locks it against other training runs (see locks.exclusive).

    Raises errors.UserError if another training run still holds the lock after `wait_seconds`.
    """
    is_new = not os.path.isdir(model_dir)
    os.makedirs(model_dir, exist_ok=True)
    path = os.path.join(model_dir, _LOCK_FILE)
    busy = f"another training run is using {model_dir}; wait for it to end, or choose another directory"
    with locks.exclusive(path, f"--model_dir: {busy}", wait_seconds):
        try:
            yield
        finally:
            if is_new and os.listdir(model_dir) == [_LOCK_FILE]:  # training did not start
                os.remove(path)
                os.rmdir(model_dir)


@contextlib.contextmanager
def clear_copies(model_dir: str, cluster: Optional[cluster_lib.Cluster]) -> Iterator[None]:
    """Removes the unused checkpoints of this worker, and of workers that do not belong to the cluster.

    They are removed on entry, because a killed process leaves its checkpoints behind, and again on exit. The
    cluster's other workers may still be running, so their checkpoints are kept.
    """
    _remove_copies(model_dir, cluster)
    try:
        yield
    finally:
        _remove_copies(model_dir, cluster)


def _remove_copies(model_dir: str, cluster: Optional[cluster_lib.Cluster]) -> None:
    in_use = {_COPIES.format(number) for number in range(len(cluster.workers) - 1)} if cluster else set()
    if cluster and cluster.rank:
        in_use.remove(_COPIES.format(cluster.rank - 1))
    for path in glob.glob(os.path.join(glob.escape(model_dir), _COPIES.format("*"))):
        if os.path.basename(path) not in in_use:
            shutil.rmtree(path, ignore_errors=True)
