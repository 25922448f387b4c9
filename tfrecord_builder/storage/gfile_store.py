"""Implements the functions in files.py for paths that tf.io.gfile handles (gs://, hdfs://)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import functools
import os
import posixpath
import shutil
from collections.abc import Iterator
from typing import BinaryIO, Optional

from tfrecord_builder.program import lazy_tensorflow as tf

_BUILT_IN = ("gs", "file", "ram")  # schemes that TensorFlow supports without plugins
_OBJECT_STORES = ("gs",)  # stores that show only complete files and have no directories
_CONCURRENT_REQUESTS = 16


def exists(path: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        _call("stat", path)
        return True
    return False


def is_directory(path: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return _call("stat", path).is_directory
    return False


def list_names(directory: str) -> set[str]:
    return {name.rstrip("/") for name in _call("listdir", directory)}  # gs:// appends / to folders


def find_files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yields the files with one of the suffixes (in any case) under a directory, in os.walk's order.

    A name with such a suffix is assumed to be that of a file, which saves a request.
    """
    names = list_names(directory)
    files = sorted(name for name in names if name.lower().endswith(suffixes))
    yield from (os.path.join(directory, name) for name in files)
    others = [os.path.join(directory, name) for name in sorted(names.difference(files))]
    with concurrent.futures.ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:
        are_folders = list(pool.map(is_directory, others))
    for path, is_folder in zip(others, are_folders):
        if is_folder:
            yield from find_files(path, suffixes)


def size_and_time(path: str) -> tuple[int, int]:
    status = _call("stat", path)
    return status.length, status.mtime_nsec


def download(path: str, file: BinaryIO) -> None:
    with reading(path) as source:
        shutil.copyfileobj(source, file, 1 << 20)


@contextlib.contextmanager
def reading(path: str, offset: int = 0, num_bytes: Optional[int] = None) -> Iterator[BinaryIO]:
    """Opens a file for reading, starting at byte `offset`; it has no fileno(). `num_bytes` is ignored."""
    with _translated(path), _gfile(path).GFile(_normalise(path), "rb") as file:
        file.seek(offset)
        yield file


def make_directory(path: str) -> None:
    if _scheme(path) in _OBJECT_STORES:
        _check_store(path)
    else:
        _call("makedirs", path)


def move(source: str, target: str) -> None:
    _call("rename", source, _normalise(target), overwrite=True)


def remove(path: str) -> None:
    _call("remove", path)


def remove_tree(directory: str) -> None:
    _call("rmtree", directory)


def upload(local_path: str, path: str, beside: str) -> None:
    """Copies a local file to `path`; outside object stores, to `beside` first, which is then renamed."""
    target = path if _scheme(path) in _OBJECT_STORES else beside
    with open(local_path, "rb") as source, _translated(target):
        with _gfile(target).GFile(_normalise(target), "wb") as file:
            file.write(b"")  # creates the file even if it is empty
            shutil.copyfileobj(source, file, 1 << 20)
    if target != path:
        move(beside, path)


def _scheme(path: str) -> str:
    return path.partition("://")[0]


def _normalise(path: str) -> str:
    """Resolves . and .. in a path, and appends a slash if the path is just a host or bucket."""
    scheme, _, location = path.partition("://")
    host, _, name = location.partition("/")
    return f"{scheme}://{host}/{posixpath.normpath(f'/{name}').lstrip('/')}"


def _call(function: str, path: str, *arguments, **options):
    """Calls a function in tf.io.gfile and converts its errors to OSErrors."""
    with _translated(path):
        return getattr(_gfile(path), function)(_normalise(path), *arguments, **options)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except tf.errors.NotFoundError as error:
        _check_store(path)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except tf.errors.OpError as error:
        raise _os_error(error, path) from error


def _check_store(path: str) -> None:
    """Raises OSError (never FileNotFoundError) if a path's bucket or server cannot be used."""
    store = _normalise("/".join(path.split("/")[:3]))
    try:
        _gfile(path).stat(store)
    except tf.errors.NotFoundError as error:
        raise OSError(errno.ENXIO, "there is no such bucket or server", store) from error
    except tf.errors.OpError as error:
        raise _os_error(error, store) from error


def _os_error(error, path: str) -> OSError:
    message = " ".join(error.message.split()).strip(": ")
    if isinstance(error, (tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError)):
        return PermissionError(errno.EACCES, f"access was denied ({message})", path)
    return OSError(errno.EIO, f"the storage cannot be used ({message})", path)


def _gfile(path: str):
    if _scheme(path) not in _BUILT_IN:
        _load_file_systems()
    return tf.io.gfile


@functools.cache
def _load_file_systems() -> None:
    """Loads the file systems of TensorFlow I/O (hdfs://, az://) if a compatible version is installed."""
    with contextlib.suppress(ImportError, NotImplementedError, tf.errors.OpError):
        import tensorflow_io  # noqa: F401
