"""A directory of limited size that processes share: who needs space removes the files unused for longest.

A file that a process holds stays. `<name>.incomplete` is a file that is being written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from typing import BinaryIO, Optional

from tfrecord_builder.storage import files

INCOMPLETE = ".incomplete"  # the ending that files.writing gives
_ABANDONED_SECONDS = 3600
_LOCK = ".lock"


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Waits until no other thread or process is in this block with the same path.

    Raises:
        OSError: the directory is missing, cannot be written, or is on a file system without locks.
    """
    file = None
    while file is None:  # again if another has removed it
        file = _open_locked(f"{path}{_LOCK}", "w", fcntl.LOCK_EX)
    with file:
        try:
            yield
        finally:
            with contextlib.suppress(FileNotFoundError):  # somebody has cleared the directory
                os.remove(file.name)


def hold(path: str) -> Optional[BinaryIO]:
    """Returns the file, open; nobody removes it until it is closed. None if it is missing."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(path)
        return _open_locked(path, "rb", fcntl.LOCK_SH)
    return None


def reserve(path: str, num_bytes: int, max_bytes: float) -> None:
    """Creates a file of a size for which others may have to go.

    The directory stays within `max_bytes`, unless what is left is held.

    Raises:
        OSError: the disk is full.
    """
    directory = os.path.dirname(path)
    with locked(os.path.join(directory, "directory")):
        _remove_abandoned(directory)
        while _count_bytes(directory) + num_bytes > max_bytes and _remove_oldest(directory):
            pass
        while not _allocate(path, num_bytes):
            if not _remove_oldest(directory):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)


def _list(directory) -> list[tuple[int, str, int]]:
    """Modification time in ns, path and size of each file, oldest first."""
    paths = [os.path.join(directory, name) for name in os.listdir(directory) if not name.endswith(_LOCK)]
    try:
        found = [(os.stat(path), path) for path in paths]
    except FileNotFoundError:  # it may have another name now, of a complete file
        return _list(directory)
    return sorted((status.st_mtime_ns, path, status.st_size) for status, path in found)


def _count_bytes(directory) -> int:
    return sum(num_bytes for _, _, num_bytes in _list(directory))


def _remove_abandoned(directory):
    """Removes what a process left that was killed."""
    for time_ns, path, _ in _list(directory):
        if path.endswith(INCOMPLETE) and time_ns < (time.time() - _ABANDONED_SECONDS) * 1e9:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)


def _remove_oldest(directory) -> bool:
    """Removes the complete file that is unused for longest; returns False if all are held."""
    complete = (path for _, path, _ in _list(directory) if not path.endswith(INCOMPLETE))
    return any(_remove_unless_held(path) for path in complete)


def _remove_unless_held(path) -> bool:
    with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:  # NFS locks what can be written
        if files.take_lock(file.fileno(), path):
            os.remove(path)
            return True
    return False


def _allocate(path, num_bytes) -> bool:
    """Returns False if the disk is full."""
    with open(path, "wb") as file:
        try:
            if hasattr(
                os, "posix_fallocate"
            ):  # macOS has none: there a full disk is noticed when it is written
                os.posix_fallocate(file.fileno(), 0, max(num_bytes, 1))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return False
        file.truncate(num_bytes)
    return True


def _open_locked(path, mode, kind):
    """Opens and locks a file; returns None if it is no longer there when it is locked."""
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(open(path, mode))
        fcntl.flock(file, kind)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                opened.pop_all()
                return file
    return None
