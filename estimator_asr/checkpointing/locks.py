"""Who reads a checkpoint locks it, and who would delete it asks first.

The lock is flock(2) on the .index file, shared by all readers; the system gives it back when the process
ends, however it ends. It holds on one machine and on file systems that pass locks on, as NFS 4 does; where
locks are refused, a reader goes on without.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable


class ReadLock:
    """Keeps a checkpoint from being deleted while this object lives, or until release()."""

    def __init__(self, checkpoint: str):
        """Takes the lock.

        Raises:
            FileNotFoundError: the checkpoint was deleted.
        """
        self._file = os.open(_index(checkpoint), os.O_RDONLY)
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_SH)
        if not _is_same(self._file, _index(checkpoint)):  # deleted between the two lines above
            self.release()
            raise FileNotFoundError(_index(checkpoint))

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def __del__(self):
        if getattr(self, "_file", None) is not None:
            self.release()


def lock(find: Callable[[], str]) -> tuple[str, ReadLock]:
    """Returns what `find` finds, locked; it is asked again if its answer was deleted meanwhile.

    Args:
        find: returns the prefix of a checkpoint.

    Raises:
        FileNotFoundError: what it names is not there.
    """
    while True:
        checkpoint = find()
        try:
            return checkpoint, ReadLock(checkpoint)
        except FileNotFoundError:
            if find() == checkpoint:
                raise


def remove_unless_read(checkpoint: str, remove: Callable[[], object]) -> bool:
    """Calls `remove` unless somebody reads the checkpoint; returns whether it did."""
    try:
        file = os.open(_index(checkpoint), os.O_RDONLY)
    except FileNotFoundError:  # never was whole
        remove()
        return True
    try:
        is_free = _lock_alone(file)
        if is_free:
            remove()
        return is_free
    finally:
        os.close(file)


def _lock_alone(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        return True
    return True


def _is_same(file, path):
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _index(checkpoint):
    return f"{checkpoint}.index"
