"""Files behind a scheme (s3://, gs://, hdfs://), by the file systems of TensorFlow and TensorFlow I/O.

Whatever is refused is an OSError with one line of text. The notes on s3:// are of tensorflow-io 0.36
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

# Where a file appears at once, when all of it is there, and where directories are but parts of names.
_OBJECT_STORES = ("s3", "gs")
_CONCURRENT_QUESTIONS = 16
# What s3:// reads when it starts, unless the user says otherwise. Its own defaults wait five minutes for each
# of eleven attempts.
_ENVIRONMENT = {
    "AWS_RETRY_MODE": "standard",
    "AWS_MAX_ATTEMPTS": "3",
    "S3_CONNECT_TIMEOUT_MSEC": "5000",
    "S3_REQUEST_TIMEOUT_MSEC": "20000",  # of silence; a transfer that goes on may take longer
}


def exists(path: str) -> bool:
    """True for a file or a directory."""
    try:
        _call("stat", path)
    except FileNotFoundError:
        return False
    return True


def is_directory(path: str) -> bool:
    """True for what has files below it, and for a bucket."""
    try:
        return _call("stat", path).is_directory
    except FileNotFoundError:
        return False


def list_names(directory: str) -> set[str]:
    """Gives the names in a directory, without the slash that gs:// puts behind folders."""
    return {name.rstrip("/") for name in _call("listdir", directory)}


def walk(directory: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, list[str], list[str]]]:
    """As os.walk, but with no other files than those whose names end so (in any case).

    Such a name is not asked whether it is a directory: an answer takes a round trip or two.
    """
    found = list_names(directory)
    names = {name for name in found if name.lower().endswith(suffixes)}
    others = sorted(found - names)
    with concurrent.futures.ThreadPoolExecutor(_CONCURRENT_QUESTIONS) as pool:
        answers = list(pool.map(is_directory, (os.path.join(directory, name) for name in others)))
    folders = [name for name, is_folder in zip(others, answers) if is_folder]
    yield directory, folders, sorted(names)
    for folder in folders:
        yield from walk(os.path.join(directory, folder), suffixes)


def size_and_time(path: str) -> tuple[int, int]:
    """Gives bytes and the time of the last change in ns; s3:// tells whole seconds."""
    status = _call("stat", path)
    return status.length, status.mtime_nsec


def open_copy(path: str) -> BinaryIO:
    """Opens a copy for reading, which goes away when it is closed."""
    copy = tempfile.TemporaryFile()
    with reading(path) as file:
        shutil.copyfileobj(file, copy, 1 << 20)
    copy.seek(0)
    return copy


@contextlib.contextmanager
def reading(path: str) -> Iterator[BinaryIO]:
    """Opens a file for reading parts of it; it has no descriptor."""
    with _translated(path), _gfile().GFile(_name(path), "rb") as file:
        yield file


def make_directory(path: str) -> None:
    """Makes a directory and those above it; in an object store there is nothing to make."""
    if _is_in_object_store(path):
        _check_store(path)
    else:
        _call("makedirs", path)


def move(source: str, target: str) -> None:
    """Moves a file within a file system, over the target if there is one."""
    if source.startswith("s3://"):
        _copy_object(source, target)
        remove(source)
    else:
        _call("rename", source, _name(target), overwrite=True)


def remove(path: str) -> None:
    """Removes a file; s3:// does not mind if there is none."""
    _call("remove", path)


def remove_tree(directory: str) -> None:
    """Removes a directory and all that is below it."""
    _call("rmtree", directory)


@contextlib.contextmanager
def uploading(path: str, beside: str) -> Iterator[str]:
    """Gives a local name to write to, whose file becomes `path` when the block ends without an error.

    Args:
      path: where to.
      beside: name to give it first where a file is seen before all of it is there.
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
    """Copies within s3://, whose rename takes every object along whose name begins like the source's.

    The copy may lose the end of an object that is a few bytes longer than a multiple of 50 MiB.
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
    """Of an empty file a copy makes nothing, or an error."""
    with _translated(path), _gfile().GFile(_name(path), "wb") as file:
        file.write(b"")


def _is_in_object_store(path: str) -> bool:
    return path.partition("://")[0] in _OBJECT_STORES


def _name(path: str) -> str:
    """Gives the one name that a store has for a path: no . and .., and a slash behind a bucket alone."""
    scheme, mark, rest = path.partition("://")
    rest = posixpath.normpath(rest)
    return f"{scheme}{mark}{rest if '/' in rest else rest + '/'}"


def _call(function: str, path: str, *arguments, **options):
    """Calls a function of tf.io.gfile; what TensorFlow says of a failure becomes an OSError."""
    with _translated(path):
        return getattr(_gfile(), function)(_name(path), *arguments, **options)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        _check_store(path)  # s3:// finds nothing where it may not look, and where nobody answers
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except tf.errors.OpError as error:
        raise _os_error(error, path) from error


def _check_store(path: str) -> None:
    """Raises OSError, but not FileNotFoundError, if the bucket or server of a path cannot be used."""
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
    import tensorflow_io  # noqa: F401  (its import registers the file systems)

    _end_without_destructors()
    return tf.io.gfile


def _end_without_destructors() -> None:
    """Lets the process end with its exit code, after all that Python has to do.

    Those of tensorflow-io 0.35 to 0.37 abort every process that used s3:// (tensorflow/io, issue 1912).
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):  # glibc alone has it
        libc.on_exit(libc._exit, None)
