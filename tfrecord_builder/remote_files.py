"""Files with a scheme (s3://, gs://, hdfs://), through the file systems of TensorFlow and TensorFlow I/O.

Every failure is an OSError. Comments on s3:// refer to tensorflow-io 0.36
(tensorflow_io/core/filesystems/s3/s3_filesystem.cc).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import errno
import functools
import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

# Show only complete files, and have no directories.
_OBJECT_STORES = ("s3", "gs")
_CONCURRENT_REQUESTS = 16
# Defaults of s3://, unless the user sets them. Its own wait five minutes for each of eleven attempts.
_ENVIRONMENT = {
    "AWS_RETRY_MODE": "standard",
    "AWS_MAX_ATTEMPTS": "3",
    "S3_CONNECT_TIMEOUT_MSEC": "5000",
    "S3_REQUEST_TIMEOUT_MSEC": "20000",  # without any data
}


def exists(path: str) -> bool:
    """Returns whether a file or a directory exists."""
    try:
        _call("stat", path)
    except FileNotFoundError:
        return False
    return True


def is_directory(path: str) -> bool:
    """Returns whether a path is a bucket or has files below it."""
    try:
        return _call("stat", path).is_directory
    except FileNotFoundError:
        return False


def list_names(directory: str) -> set[str]:
    """Returns the names in a directory, without the slash that gs:// appends to folders."""
    return {name.rstrip("/") for name in _call("listdir", directory)}


def walk(directory: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walks as os.walk, but yields only files that end with a suffix (in any case).

    A name with a suffix is taken for a file, which saves a request.
    """
    found = list_names(directory)
    names = {name for name in found if name.lower().endswith(suffixes)}
    others = sorted(found - names)
    with concurrent.futures.ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:
        are_folders = list(pool.map(is_directory, (os.path.join(directory, name) for name in others)))
    folders = [name for name, is_folder in zip(others, are_folders) if is_folder]
    yield directory, folders, sorted(names)
    for folder in folders:
        yield from walk(os.path.join(directory, folder), suffixes)


def size_and_time(path: str) -> tuple[int, int]:
    """Returns size in bytes and modification time in ns; s3:// has whole seconds."""
    status = _call("stat", path)
    return status.length, status.mtime_nsec


def open_copy(path: str) -> BinaryIO:
    """Opens a temporary copy of a file."""
    copy = tempfile.TemporaryFile()
    with reading(path) as file:
        shutil.copyfileobj(file, copy, 1 << 20)
    copy.seek(0)
    return copy


@contextlib.contextmanager
def reading(path: str) -> Iterator[BinaryIO]:
    """Opens a file without a descriptor, for reading a part of it."""
    with _translated(path), _gfile().GFile(_name(path), "rb") as file:
        yield file


def make_directory(path: str) -> None:
    """Creates a directory with its parents; in an object store, only checks the bucket."""
    if _is_in_object_store(path):
        _check_store(path)
    else:
        _call("makedirs", path)


def move(source: str, target: str) -> None:
    """Moves a file within a file system, replacing the target."""
    if source.startswith("s3://"):
        _copy_object(source, target)
        remove(source)
    else:
        _call("rename", source, _name(target), overwrite=True)


def remove(path: str) -> None:
    """Removes a file; s3:// does not complain if it does not exist."""
    _call("remove", path)


def remove_tree(directory: str) -> None:
    """Removes a directory with its contents."""
    _call("rmtree", directory)


@contextlib.contextmanager
def uploading(path: str, beside: str) -> Iterator[str]:
    """Yields a temporary local path to write to; the file becomes `path` when the block ends without error.

    Outside object stores it is uploaded as `beside` first, and then renamed.
    """
    with tempfile.TemporaryDirectory() as directory:
        temporary = os.path.join(directory, os.path.basename(path))
        yield temporary
        if _is_in_object_store(path):
            _upload(temporary, path)
        else:
            _upload(temporary, beside)
            move(beside, path)


def _upload(source: str, target: str) -> None:
    if not os.path.getsize(source):
        _write_empty(target)
        return
    with _translated(target):
        _gfile().copy(source, _name(target), overwrite=True)


def _copy_object(source: str, target: str) -> None:
    """Copies within s3://, whose rename also moves every object whose name starts with that of the source.

    The copy may lose the last bytes of an object that is slightly longer than a multiple of 50 MiB.
    """
    size, _ = size_and_time(source)
    if size:
        _call("copy", source, _name(target), overwrite=True)
    else:
        _write_empty(target)
    copied, _ = size_and_time(target)
    if copied != size:
        raise OSError(errno.EIO, f"the store copied {copied} of {size} bytes", target)


def _write_empty(path: str) -> None:
    """Writes an empty file, which copying would lose."""
    with _translated(path), _gfile().GFile(_name(path), "wb") as file:
        file.write(b"")


def _is_in_object_store(path: str) -> bool:
    return path.partition("://")[0] in _OBJECT_STORES


def _name(path: str) -> str:
    """Returns the normal form of a path: without . and .., with a slash after a bucket alone."""
    scheme, mark, rest = path.partition("://")
    rest = posixpath.normpath(rest)
    return f"{scheme}{mark}{rest if '/' in rest else rest + '/'}"


def _call(function: str, path: str, *arguments, **options):
    """Calls a function of tf.io.gfile; its errors become OSErrors."""
    with _translated(path):
        return getattr(_gfile(), function)(_name(path), *arguments, **options)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        _check_store(path)  # s3:// says so also without permission or connection
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except tf.errors.OpError as error:
        raise _os_error(error, path) from error


def _check_store(path: str) -> None:
    """Raises OSError, but not FileNotFoundError, if the bucket or server of a path is unusable."""
    import tensorflow as tf

    store = _name("/".join(path.split("/")[:3]))
    try:
        _gfile().stat(store)
    except tf.errors.NotFoundError as error:
        raise OSError(errno.ENXIO, "there is no such bucket or server", store) from error
    except tf.errors.OpError as error:
        raise _os_error(error, store) from error


def _os_error(error, path: str) -> OSError:
    import tensorflow as tf

    message = " ".join(error.message.split()).strip(": ")
    if isinstance(error, (tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError)):
        return PermissionError(errno.EACCES, f"access is refused ({message})", path)
    return OSError(errno.EIO, f"the store cannot be used ({message})", path)


@functools.cache
def _gfile():
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.pop("S3_DISABLE_MULTI_PART_DOWNLOAD", None)  # with it, a read at the very end crashes

    import tensorflow as tf
    import tensorflow_io  # noqa: F401  (registers the file systems)

    _end_without_destructors()
    return tf.io.gfile


def _end_without_destructors() -> None:
    """Skips C++ destructors at exit: those of tensorflow-io 0.35 to 0.37 abort after s3:// (issue 1912)."""
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):  # glibc alone has it
        libc.on_exit(libc._exit, None)
