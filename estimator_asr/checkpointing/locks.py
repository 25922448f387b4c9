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


class ReadLock:
    """Keeps a checkpoint from being deleted as long as the object lives, or until release()."""

    def __init__(self, checkpoint: str):
        """Takes the lock.

        Raises:
            FileNotFoundError: the checkpoint was deleted.
        """
        path = f"{checkpoint}.index"
        self._file = os.open(path, os.O_RDONLY)
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_SH)
        try:
            is_same = os.path.samestat(os.fstat(self._file), os.stat(path))
        except FileNotFoundError:
            is_same = False
        if not is_same:  # deleted between opening and locking
            self.release()
            raise FileNotFoundError(path)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def __del__(self):
        if getattr(self, "_file", None) is not None:
            self.release()


def lock(find: Callable[[], str]) -> tuple[str, ReadLock]:
    """Locks the checkpoint that `find` returns; calls it again if that was deleted meanwhile.

    Raises:
        FileNotFoundError: `find` names a checkpoint that does not exist.
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
    try:
        file = os.open(f"{checkpoint}.index", os.O_RDONLY)
    except FileNotFoundError:  # it was never complete
        remove()
        return True
    try:
        with contextlib.suppress(OSError):  # no locks on this file system
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        remove()
        return True
    finally:
        os.close(file)
