"""Locks local files and directories with flock(2); the system releases the locks when a process ends.

The locks work within a machine and, for files that are open for writing, between machines that share the
files over NFS 4.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import Optional

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.program import urls

# flock's error codes if the file system does not support a lock; NFS, for example, cannot lock directories.
_NO_LOCKS = (errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_EXCLUSIVE = fcntl.LOCK_EX | fcntl.LOCK_NB


@contextlib.contextmanager
def exclusive(
    path: str, busy: Optional[str] = None, wait_seconds: float = 0.0, is_temporary: bool = False
) -> Iterator[Optional[int]]:
    """Locks a directory or a file (created if missing); yields the lock's file descriptor.

    A child process that inherits the descriptor holds the lock until the child ends. Nothing is locked in
    object stores or, if `busy` is not None, on file systems without locks.

    Args:
        path: path of the directory or file.
        busy: message of the error if another process holds the lock; if None, threads and processes wait for
            each other, however long it takes.
        wait_seconds: how long to wait before raising the error.
        is_temporary: the file exists only for the lock, and is removed on exit.

    Raises:
        errors.UserError: another process still holds the lock after `wait_seconds`.
        OSError: the path cannot be opened, or `busy` is None and the file system has no locks.
    """
    if urls.is_remote(path):
        yield None
        return
    descriptor = _open_locked(path, busy, wait_seconds)
    try:
        yield descriptor
    finally:
        if is_temporary:
            with contextlib.suppress(FileNotFoundError):  # the directory may have been cleared
                os.remove(path)
        os.close(descriptor)


class ReadLock:
    """A lock, held until release() or deletion, that keeps remove_unless_read from removing a file.

    Raises FileNotFoundError if the file is missing, or was removed or replaced before it was locked.
    """

    _descriptor: Optional[int] = None

    def __init__(self, path: str):
        self._descriptor = os.open(path, os.O_RDONLY)
        if not _take(self._descriptor, path, fcntl.LOCK_SH):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def __del__(self):
        self.release()


def remove_unless_read(path: str, remove: Callable[[], object]) -> bool:
    """Calls `remove` to remove a file, or returns False if a process holds a ReadLock on the file."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):
            # NFS grants exclusive locks only on files open for writing; elsewhere, read access is enough.
            mode = "r+b" if os.access(path, os.W_OK) else "rb"
            file = stack.enter_context(open(path, mode))
            if not _take(file.fileno(), path):
                return False
        remove()
    return True


def _open_locked(path: str, busy: Optional[str], wait_seconds: float) -> int:
    limit = time.monotonic() + wait_seconds
    descriptor = _open_once(path, busy)
    if descriptor is None and wait_seconds:
        logging.info("%s is locked by another process; waiting for at most %g seconds", path, wait_seconds)
    while descriptor is None:
        if busy is not None:
            if time.monotonic() >= limit:
                raise errors.UserError(busy)
            time.sleep(1.0)
        descriptor = _open_once(path, busy)
    return descriptor


def _open_once(path: str, busy: Optional[str]) -> Optional[int]:
    """Opens and locks a path; returns None if another process has locked, removed or replaced it."""
    flags = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR | os.O_CREAT
    how = (fcntl.LOCK_EX, ()) if busy is None else (_EXCLUSIVE, _NO_LOCKS)
    with contextlib.ExitStack() as stack:
        descriptor = os.open(path, flags, 0o666)
        stack.callback(os.close, descriptor)
        if not _take(descriptor, path, *how):
            return None
        stack.pop_all()
    return descriptor


def _take(descriptor: int, path: str, kind: int = _EXCLUSIVE, no_locks: tuple[int, ...] = _NO_LOCKS) -> bool:
    """Locks a descriptor; returns False if another process holds the lock or has replaced the file."""
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in no_locks:
            raise
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False
