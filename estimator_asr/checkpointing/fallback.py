"""The checkpoint that training continues from: the newest that opens, whatever a crash left behind.

TensorFlow continues from what the state file names, and fails if that is damaged. Here the state is put
right first, so that it names a whole checkpoint; what is damaged is kept in MODEL_DIR/damaged.
"""

from __future__ import annotations

import glob
import os
import shutil
from typing import Optional

from absl import logging

from estimator_asr.checkpointing import checkpoints
from tfrecord_builder import errors

DAMAGED_DIRECTORY = "damaged"
# What the Saver and the writer of the state call a file before it is whole.
_LEFTOVERS = ("model.ckpt-*_temp", "*.tempstate*", "model.ckpt-*.tmp*", "checkpoint.tmp*")


def newest_readable(model_dir: str) -> Optional[str]:
    """Returns the prefix of the checkpoint to continue from, after making it the one TensorFlow continues
    from; None if there is none yet.

    That is the one that the state names; if it cannot be read, the newest that can. Each is read to the end.
    One sentence is logged if it is not the one that was named. Leftovers of a save that was killed are
    removed. Only the process that writes the checkpoints may call this; others call `find`.

    Raises:
        errors.UserError: there are checkpoints and none can be read.
    """
    _remove_leftovers(model_dir)
    found, faults = find(model_dir)
    if faults:
        _repair(model_dir, found, faults)
    return found


def find(model_dir: str) -> tuple[Optional[str], dict[str, str]]:
    """Looks without changing anything.

    Returns:
        What newest_readable returns, and why what should come before it cannot be used: path to reason.

    Raises:
        errors.UserError: as newest_readable.
    """
    stated, present = checkpoints.stated(model_dir), checkpoints.list_checkpoints(model_dir)
    faults = {}
    if stated is None and (present or os.path.exists(_state_path(model_dir))):
        is_there = os.path.exists(_state_path(model_dir))
        faults[_state_path(model_dir)] = "cannot be read" if is_there else "is gone"
    candidates = [] if stated is None else [stated]
    for candidate in candidates + [prefix for prefix in reversed(present) if prefix not in candidates]:
        try:
            checkpoints.read_shapes(candidate)
            return candidate, faults
        except checkpoints.DamagedError as error:
            faults[candidate] = f"cannot be read ({error.reason})"
    if present:
        raise errors.UserError(
            f"{model_dir}: none of {len(present)} checkpoints can be read ({_last_fault(faults, present)}), "
            f"expected one; copy the files of one from {os.path.join(model_dir, 'best')} "
            "beside config.json, or give another --model_dir."
        )
    return None, faults


def _last_fault(faults, present):
    return f"{os.path.basename(present[-1])} {faults[present[-1]]}"


def _repair(model_dir, found, faults):
    """The state first: should this be killed too, the next start finds a whole checkpoint at once."""
    if found is None:
        os.remove(_state_path(model_dir))
    else:
        whole = [prefix for prefix in checkpoints.list_checkpoints(model_dir) if prefix not in faults]
        checkpoints.write_state(model_dir, found, whole)
    kept = [_keep_damaged(model_dir, prefix) for prefix in faults if checkpoints.list_files(prefix)]
    logging.warning(
        "%s: %s; training %s%s",
        model_dir,
        ", ".join(f"{os.path.basename(path)} {reason}" for path, reason in faults.items()),
        f"continues from {os.path.basename(found)}, the newest that opens" if found else "begins anew",
        f"; damaged files are kept in {', '.join(kept)}" if kept else "",
    )


def _keep_damaged(model_dir, prefix):
    """Moves the files of a checkpoint out of the way; returns where."""
    name, count = os.path.basename(prefix), 1
    target = os.path.join(model_dir, DAMAGED_DIRECTORY, name)
    while os.path.exists(target):
        count += 1
        target = os.path.join(model_dir, DAMAGED_DIRECTORY, f"{name}-{count}")
    os.makedirs(target)
    for path in checkpoints.list_files(prefix):
        os.rename(path, os.path.join(target, os.path.basename(path)))
    return target


def _remove_leftovers(model_dir):
    for pattern in _LEFTOVERS:
        for path in glob.glob(os.path.join(glob.escape(model_dir), pattern)):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def _state_path(model_dir):
    return os.path.join(model_dir, checkpoints.STATE_FILE)
