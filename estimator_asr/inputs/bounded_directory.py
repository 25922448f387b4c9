"""A size-limited directory that processes share: the least recently used files are removed to make space.

Files that a process holds are not removed. A file named `<name>.incomplete` is still being written.
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

INCOMPLETE = ".incomplete"  # suffix that files.writing adds while a file is being written
LOCK = ".lock"  # suffix of the lock files
FULL = (errno.ENOSPC, errno.EDQUOT)  # error codes for a full disk or an exceeded quota
_ABANDONED_SECONDS = 3600  # an incomplete file older than this is no longer being written


def hold(path: str) -> Optional[locks.ReadLock]:
    """Returns a lock that, until released, prevents removal of the file; None if the file is missing."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(path)
        return locks.ReadLock(path)
    return None


def reserve(path: str, num_bytes: int, max_bytes: float) -> None:
    """Creates a file of `num_bytes` bytes, after removing other files if there is too little space.

    The directory does not grow beyond `max_bytes`, unless all remaining files are held. Raises OSError if the
    disk is full and all remaining files are held.
    """
    directory = os.path.dirname(path)
    with locks.exclusive(os.path.join(directory, f"directory{LOCK}"), is_temporary=True):
        _remove_abandoned(directory)
        while count_bytes(directory) + num_bytes > max_bytes and _remove_oldest(directory):
            pass
        while not _allocate(path, num_bytes):
            if not _remove_oldest(directory):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)


def count_bytes(directory: str) -> int:
    """Returns the total size of the files in a directory, in bytes."""
    return sum(status.st_size for status, _ in _list(directory))


def _list(directory):
    """Returns (os.lstat result, path) for each file that is not a lock, least recently used first."""
    while True:
        names = [name for name in os.listdir(directory) if not name.endswith(LOCK)]
        paths = [os.path.join(directory, name) for name in names]
        # If a file has just been renamed or removed, the directory is listed again.
        with contextlib.suppress(FileNotFoundError):
            statuses = [os.lstat(path) for path in paths]  # does not follow links, which may be broken
            return sorted(zip(statuses, paths), key=lambda file: (file[0].st_mtime_ns, file[1]))


def _remove_abandoned(directory):
    """Removes incomplete files that killed processes have left behind."""
    for status, path in _list(directory):
        if path.endswith(INCOMPLETE) and status.st_mtime < time.time() - _ABANDONED_SECONDS:
            _remove(path)


def _remove_oldest(directory) -> bool:
    """Removes the least recently used complete file that is not held; returns False if there is none."""
    complete = (path for _, path in _list(directory) if not path.endswith(INCOMPLETE))
    return any(locks.remove_unless_read(path, functools.partial(_remove, path)) for path in complete)


def _remove(path):
    pathlib.Path(path).unlink(missing_ok=True)


def _allocate(path, num_bytes) -> bool:
    """Creates a file; returns False if the disk is full (not detected on macOS: no posix_fallocate)."""
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
