"""A directory of limited size that processes share: who needs space removes the files unused for longest.

A file that a process holds stays. `<name>.incomplete` is a file that is being written.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pathlib
import time
from typing import Optional

from tfrecord_builder.storage import locks

INCOMPLETE = ".incomplete"  # the ending that files.writing gives
LOCK = ".lock"  # the ending of the files of locks.in_turn
_ABANDONED_SECONDS = 3600


def hold(path: str) -> Optional[locks.ReadLock]:
    """Returns a lock on the file; nobody removes it until the lock is released. None if it is missing."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(path)
        return locks.ReadLock(path)
    return None


def reserve(path: str, num_bytes: int, max_bytes: float) -> None:
    """Creates a file of a size for which others may have to go.

    The directory stays within `max_bytes`, unless what is left is held.

    Raises:
        OSError: the disk is full.
    """
    directory = os.path.dirname(path)
    with locks.in_turn(os.path.join(directory, f"directory{LOCK}")):
        _remove_abandoned(directory)
        while _count_bytes(directory) + num_bytes > max_bytes and _remove_oldest(directory):
            pass
        while not _allocate(path, num_bytes):
            if not _remove_oldest(directory):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)


def _list(directory) -> list[tuple[int, str, int]]:
    """Modification time in ns, path and size of each file, oldest first."""
    paths = [os.path.join(directory, name) for name in os.listdir(directory) if not name.endswith(LOCK)]
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
            _remove(path)


def _remove_oldest(directory) -> bool:
    """Removes the complete file that is unused for longest; returns False if all are held."""
    complete = (path for _, path, _ in _list(directory) if not path.endswith(INCOMPLETE))
    return any(locks.remove_unless_read(path, functools.partial(_remove, path)) for path in complete)


def _remove(path):
    pathlib.Path(path).unlink(missing_ok=True)


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
