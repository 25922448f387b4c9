"""Model directory of a training: checks that it is usable, locks it, removes other workers' checkpoints."""

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

# Directories of the checkpoints that TensorFlow lets all workers except the chief write; nobody reads them.
_COPIES = "tmp_worker_{}"
_LOCK_FILE = "training.lock"
# An NFS 4 server releases the lock of a dead machine after 90 s by default.
CLUSTER_WAIT_SECONDS = 120.0
# Files that show that a directory is not a model directory, and what it holds instead.
_OTHERS = {dataset_info.INFO_FILE: "data", "saved_model.pb": "an export", "*[0-9]/saved_model.pb": "exports"}


def check_usable(model_dir: str) -> None:
    """Checks that a directory can be the model directory of a training.

    Raises:
        errors.UserError: it is a file, or holds data, an export, or the best checkpoints of another model
            directory.
    """
    if os.path.exists(model_dir) and not os.path.isdir(model_dir):
        raise errors.UserError(f"--model_dir: {model_dir} is a file, not a directory; choose another path")
    best_checkpoints.refuse_training(model_dir)
    for pattern, content in _OTHERS.items():
        for path in glob.glob(os.path.join(glob.escape(model_dir), pattern)):
            raise errors.UserError(
                f"--model_dir: {model_dir} holds {content} ({os.path.relpath(path, model_dir)}), so it "
                "is not a model directory; choose a model directory or a new one. Nothing was changed"
            )


@contextlib.contextmanager
def reserve(model_dir: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Creates the directory if it is missing and locks it against other trainings, see locks.exclusive.

    Waits at most `wait_seconds` for another training to end.

    Raises:
        errors.UserError: another training is still running in the directory; nothing was changed.
    """
    is_new = not os.path.isdir(model_dir)
    os.makedirs(model_dir, exist_ok=True)
    path = os.path.join(model_dir, _LOCK_FILE)
    busy = (
        f"--model_dir: another training is running in {model_dir}; "
        "wait for it to end, or choose another directory"
    )
    with locks.exclusive(path, busy, wait_seconds):
        try:
            yield
        finally:
            if is_new and os.listdir(model_dir) == [_LOCK_FILE]:  # the run was refused
                os.remove(path)
                os.rmdir(model_dir)


@contextlib.contextmanager
def clear_copies(model_dir: str, cluster: Optional[cluster_lib.Cluster]) -> Iterator[None]:
    """Removes the unused checkpoints of this worker and of workers that are not in the cluster.

    It does so at the start, because a killed process leaves its checkpoints behind, and at the end. Other
    workers of the cluster may be running, so their checkpoints stay.
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
