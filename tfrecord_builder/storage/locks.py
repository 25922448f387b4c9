"""Locks local files and directories with flock(2); the system releases the locks when a process ends.

The locks work within a machine and, for files that are open for writing, between machines that share NFS 4.
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

# flock's error codes if the file system does not support a lock; NFS, for example, cannot lock directories.
_NO_LOCKS = (errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_EXCLUSIVE = fcntl.LOCK_EX | fcntl.LOCK_NB


@contextlib.contextmanager
def exclusive(path: str, busy: str, wait_seconds: float = 0.0) -> Iterator[int]:
    """Locks a directory or a file (created if it is missing); yields the file descriptor of the lock.

    A child process that inherits the descriptor holds the lock until it ends. On a file system without locks,
    every process gets the lock.

    Raises:
        errors.UserError: another process still holds the lock after `wait_seconds`; `busy` is the message.
    """
    flags = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags, 0o666)
    try:
        if not _take(descriptor, path):
            _wait(descriptor, path, busy, wait_seconds)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def in_turn(path: str) -> Iterator[None]:
    """Runs a block once no other thread or process is in a block with this lock file, which is then removed.

    Raises:
        OSError: the directory is missing, is not writable, or is on a file system without locks.
    """
    is_ours = False
    while not is_ours:  # try again if another process removed the file before it was locked
        with open(path, "w") as file:
            is_ours = _take(file.fileno(), path, fcntl.LOCK_EX, no_locks=())
            if is_ours:
                try:
                    yield
                finally:
                    with contextlib.suppress(FileNotFoundError):  # the directory may have been cleared
                        os.remove(path)


@contextlib.contextmanager
def reserved(path: str, busy: str) -> Iterator[None]:
    """Locks a local file while it is being written, using an empty lock file next to it, removed afterwards.

    Raises:
        errors.UserError: another process holds the lock; `busy` is the message.
    """
    lock = f"{path}.lock"
    with exclusive(lock, busy):
        try:
            yield
        finally:
            with contextlib.suppress(FileNotFoundError):  # removed by another process without locks
                os.remove(lock)


class ReadLock:
    """Keeps remove_unless_read from removing a file until release() is called or the object is deleted.

    Raises:
        FileNotFoundError: the file is missing, or was removed or replaced before it was locked.
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
            # NFS grants exclusive locks only on files open for writing; elsewhere, reading is enough.
            mode = "r+b" if os.access(path, os.W_OK) else "rb"
            file = stack.enter_context(open(path, mode))
            if not _take(file.fileno(), path):
                return False
        remove()
    return True


def _wait(descriptor: int, path: str, busy: str, wait_seconds: float) -> None:
    if wait_seconds:
        logging.info("%s: locked by another process, waiting for at most %g seconds", path, wait_seconds)
    limit = time.monotonic() + wait_seconds
    while time.monotonic() < limit:
        time.sleep(1.0)
        if _take(descriptor, path):
            return
    raise errors.UserError(busy)


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
