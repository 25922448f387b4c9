"""Files here and in object stores, by one set of names.

A path with a scheme (gs://, s3://, hdfs://) goes through TensorFlow's file systems, of which TensorFlow I/O
brings most; every other path goes to the operating system. Whatever is refused is an OSError, as from open().
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import BinaryIO


def is_remote(path: str) -> bool:
    """True if TensorFlow's file systems serve the path."""
    return "://" in path


def exists(path: str) -> bool:
    """True for a file or a directory."""
    return _call("exists", path) if is_remote(path) else os.path.exists(path)


def is_directory(path: str) -> bool:
    """True for a directory; in an object store, for what has objects below it."""
    return _call("isdir", path) if is_remote(path) else os.path.isdir(path)


def list_names(directory: str) -> list[str]:
    """Gives the names in a directory, sorted, without the slash that object stores put behind folders."""
    names = _call("listdir", directory) if is_remote(directory) else os.listdir(directory)
    return sorted(name.rstrip("/") for name in names)


def find_files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yields the files below a directory whose names end so (in any case), in an order that stays."""
    walk = _call("walk", directory) if is_remote(directory) else os.walk(directory)
    for parent, folders, names in walk:
        folders.sort()  # os.walk goes down in this order
        for name in sorted(names):
            if name.lower().endswith(suffixes):
                yield os.path.join(parent, name)


def size_and_time(path: str) -> tuple[int, int]:
    """Gives bytes and the time of the last change in ns; a file that is replaced changes at least one."""
    if is_remote(path):
        status = _call("stat", path)
        return status.length, status.mtime_nsec
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def open_binary(path: str) -> BinaryIO:
    """Opens a file for reading; a remote one is copied first, so that all of it can be sought in."""
    if not is_remote(path):
        return open(path, "rb")
    copy = tempfile.TemporaryFile()
    with _translated(path), _gfile().GFile(path, "rb") as file:
        shutil.copyfileobj(file, copy, 1 << 20)
    copy.seek(0)
    return copy


def sha256(path: str) -> str:
    """Gives the hex digest of a file, in memory that does not grow with it."""
    digest = hashlib.sha256()
    with open_binary(path) as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def make_directory(path: str) -> None:
    """Makes a directory and those above it; one that is there is fine."""
    if is_remote(path):
        _call("makedirs", path)
    else:
        os.makedirs(path, exist_ok=True)


def move(source: str, target: str) -> None:
    """Moves a file, over the target if there is one."""
    if is_remote(source):
        _call("rename", source, target, overwrite=True)
    else:
        os.replace(source, target)


def remove(path: str) -> None:
    """Removes a file."""
    if is_remote(path):
        _call("remove", path)
    else:
        os.remove(path)


def remove_tree(directory: str) -> None:
    """Removes a directory and all that is below it."""
    if is_remote(directory):
        _call("rmtree", directory)
    else:
        shutil.rmtree(directory)


@contextlib.contextmanager
def writing(path: str) -> Iterator[str]:
    """Gives a local name to write to, and puts the file in place when the block ends without an error.

    Nobody sees a part of it: it is renamed from a name beside it, or copied to an object store as a whole.
    """
    if is_remote(path):
        with tempfile.TemporaryDirectory() as directory:
            temporary = os.path.join(directory, os.path.basename(path))
            yield temporary
            _call("copy", temporary, f"{path}.incomplete", overwrite=True)
            move(f"{path}.incomplete", path)
    else:
        temporary = f"{path}.{os.getpid()}.incomplete"
        yield temporary
        os.replace(temporary, path)


def _call(name: str, path: str, *arguments, **options):
    """Calls a function of tf.io.gfile; what TensorFlow says of a failure becomes an OSError."""
    with _translated(path):
        return getattr(_gfile(), name)(path, *arguments, **options)


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        number = errno.ENOENT if isinstance(error, tf.errors.NotFoundError) else errno.EIO
        raise OSError(number, error.message, path) from error


@functools.cache
def _gfile():
    import tensorflow as tf
    import tensorflow_io  # noqa: F401  (its import registers the file systems)

    return tf.io.gfile
