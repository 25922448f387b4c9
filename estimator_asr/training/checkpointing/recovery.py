"""Recovery from interruptions: saves at regular steps, and finds the newest readable checkpoint.

TensorFlow continues from the checkpoint named in the state file, and fails if that checkpoint is damaged. So
the state file is repaired before training, and damaged checkpoints are moved to MODEL_DIR/damaged.
"""

from __future__ import annotations

import glob
import itertools
import os
import shutil
from typing import Optional

from absl import logging

from estimator_asr.experiment import checkpoints, estimator_api
from tfrecord_builder import errors

_DAMAGED_DIRECTORY = "damaged"
# Temporary files left behind if the process is killed while it saves a checkpoint or writes the state file.
_LEFTOVERS = ("model.ckpt-*_temp", "*.tempstate*", "model.ckpt-*.tmp*", "checkpoint.tmp*")


class RegularSaver(estimator_api.CheckpointSaverHook):
    """A hook that saves checkpoints at multiples of `save_steps` and at a session's first and last step.

    TensorFlow's hook counts from the session's first step: with save_steps=100, a run that resumes at step
    137 would be saved and evaluated at 237 instead of 200, and early stopping would depend on interruptions.
    """

    def __init__(self, model_dir: str, save_steps: int):
        super().__init__(model_dir, save_steps=save_steps, save_graph_def=False)
        self._save_steps = save_steps

    def after_create_session(self, session, coord):
        super().after_create_session(session, coord)
        step = self._timer.last_triggered_step()
        self._timer.update_last_triggered_step(step - step % self._save_steps)


def recover(model_dir: str) -> Optional[str]:
    """Repairs the state file; returns the prefix of the checkpoint to continue from, or None.

    Removes temporary files left by an interrupted save, and warns if the state file was wrong. Only the
    process that writes checkpoints may call this; others call find_checkpoint, which raises the same
    errors.UserError.
    """
    for pattern in _LEFTOVERS:
        for path in glob.glob(os.path.join(glob.escape(model_dir), pattern)):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    checkpoint, faults = find_checkpoint(model_dir)
    if faults:
        _repair(model_dir, checkpoint, faults)
    return checkpoint


def find_checkpoint(model_dir: str) -> tuple[Optional[str], dict[str, str]]:
    """Finds the checkpoint to continue from: the one in the state file, otherwise the newest readable one.

    Returns its prefix (None if there is no checkpoint), and {path: fault} for a state file or checkpoints
    that could not be used. Raises errors.UserError if there are checkpoints but none can be read.
    """
    stated, present = checkpoints.stated(model_dir), checkpoints.list_checkpoints(model_dir)
    faults, state = {}, os.path.join(model_dir, checkpoints.STATE_FILE)
    if stated is None and (present or os.path.exists(state)):
        faults[state] = "cannot be read" if os.path.exists(state) else "is missing"
    for candidate in filter(None, dict.fromkeys([stated, *reversed(present)])):
        try:
            checkpoints.read_shapes(candidate)
            return candidate, faults
        except checkpoints.DamagedError as error:
            faults[candidate] = f"cannot be read ({error.reason})"
    if present:
        raise errors.UserError(
            f"{model_dir}: none of the {len(present)} checkpoints can be read "
            f"({os.path.basename(present[-1])} {faults[present[-1]]}); copy one from "
            f"{os.path.join(model_dir, 'best')} to {model_dir}, or choose another --model_dir"
        )
    return None, faults


def _repair(model_dir, checkpoint, faults):
    """Repairs the state file, then moves damaged files; in this order, a kill in between does no harm."""
    if checkpoint is None:
        start = "starts from step 0"
        os.remove(os.path.join(model_dir, checkpoints.STATE_FILE))
    else:
        start = f"continues from {os.path.basename(checkpoint)}, the newest readable checkpoint"
        readable = [prefix for prefix in checkpoints.list_checkpoints(model_dir) if prefix not in faults]
        checkpoints.write_state(model_dir, checkpoint, readable)
    moved = [_move_damaged(model_dir, prefix) for prefix in faults if checkpoints.list_files(prefix)]
    problems = ", ".join(f"{os.path.basename(path)} {reason}" for path, reason in faults.items())
    places = f"; damaged files were moved to {', '.join(moved)}" if moved else ""
    logging.warning("%s: %s; training %s%s", model_dir, problems, start, places)


def _move_damaged(model_dir, prefix):
    """Moves the files of a checkpoint into a new directory and returns its path."""
    name = os.path.join(model_dir, _DAMAGED_DIRECTORY, os.path.basename(prefix))
    names = (f"{name}-{count}" if count > 1 else name for count in itertools.count(1))
    target = next(name for name in names if not os.path.exists(name))
    os.makedirs(target)
    for path in checkpoints.list_files(prefix):
        os.rename(path, os.path.join(target, os.path.basename(path)))
    return target
