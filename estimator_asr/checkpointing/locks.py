"""Read locks on checkpoints: one that is being read is not deleted.

The lock is flock(2) on the .index file, shared by all readers and released by the system when the process
ends. It works on one machine and on file systems that support locks, such as NFS 4; where locks are refused,
readers continue without.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from typing import Optional

from tfrecord_builder.storage import files


class ReadLock:
    """Keeps a checkpoint from being deleted as long as the object lives, or until release()."""

    _file: Optional[int] = None

    def __init__(self, checkpoint: str):
        """Takes the lock. Raises FileNotFoundError if the checkpoint was deleted."""
        path = f"{checkpoint}.index"
        self._file = os.open(path, os.O_RDONLY)
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_SH)
        if not os.path.samestat(os.fstat(self._file), os.stat(path)):  # replaced between opening and locking
            raise FileNotFoundError(path)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def __del__(self):
        self.release()


def lock(find: Callable[[], str]) -> tuple[str, ReadLock]:
    """Locks the checkpoint that `find` returns; calls it again if that was deleted meanwhile.

    Raises FileNotFoundError if `find` returns a checkpoint that does not exist.
    """
    while True:
        checkpoint = find()
        try:
            return checkpoint, ReadLock(checkpoint)
        except FileNotFoundError:
            if find() == checkpoint:
                raise


def remove_unless_read(checkpoint: str, remove: Callable[[], object]) -> bool:
    """Calls `remove` unless a process reads the checkpoint; returns whether it did."""
    index = f"{checkpoint}.index"
    with contextlib.ExitStack() as stack:
        if os.path.exists(index):  # otherwise the checkpoint was never complete
            file = stack.enter_context(open(index, "rb"))
            if not files.take_lock(file.fileno(), index):
                return False
        remove()
    return True
