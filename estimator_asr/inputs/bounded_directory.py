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
FULL = (errno.ENOSPC, errno.EDQUOT)  # the disk is
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
        while count_bytes(directory) + num_bytes > max_bytes and _remove_oldest(directory):
            pass
        while not _allocate(path, num_bytes):
            if not _remove_oldest(directory):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)


def count_bytes(directory: str) -> int:
    """Returns the size of all files."""
    return sum(status.st_size for status, _ in _list(directory))


def _list(directory):
    """Returns status and path of each file, oldest first."""
    while True:
        names = [name for name in os.listdir(directory) if not name.endswith(LOCK)]
        paths = [os.path.join(directory, name) for name in names]
        # A file that has just been completed has another name now, so it is looked for again.
        with contextlib.suppress(FileNotFoundError):
            statuses = [os.lstat(path) for path in paths]  # of a link itself: what it leads to may be missing
            return sorted(zip(statuses, paths), key=lambda file: (file[0].st_mtime_ns, file[1]))


def _remove_abandoned(directory):
    """Removes what a process left that was killed."""
    for status, path in _list(directory):
        if path.endswith(INCOMPLETE) and status.st_mtime < time.time() - _ABANDONED_SECONDS:
            _remove(path)


def _remove_oldest(directory) -> bool:
    """Removes the complete file that is unused for longest; returns False if all are held."""
    complete = (path for _, path in _list(directory) if not path.endswith(INCOMPLETE))
    return any(locks.remove_unless_read(path, functools.partial(_remove, path)) for path in complete)


def _remove(path):
    pathlib.Path(path).unlink(missing_ok=True)


def _allocate(path, num_bytes) -> bool:
    """Returns False if the disk is full; on macOS, without posix_fallocate, that shows when it is written."""
    with open(path, "wb") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(num_bytes, 1))
        except OSError as error:
            if error.errno not in FULL:
                raise
            return False
        file.truncate(num_bytes)
    return True
