"""Local files and files in object stores, by the same functions.

A path with a scheme goes to s3_store (s3://) or gfile_store (gs://, hdfs://), others to the operating system.
A path may also name a member of an archive (speech.ark:17, see members.py), which has the size and time of
the archive.
Every failure is an OSError, as of open().
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from tfrecord_builder import errors
from tfrecord_builder.storage import members

EXPECTED_LOCAL = (
    "expected a path on a local disk or a mounted volume; copy from or to an object store with its own tool, "
    "such as gcloud storage cp or aws s3 cp"
)
# Error codes of flock on file systems without locks: NFS has none for directories.
_NO_LOCKS = (errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def is_remote(path: str) -> bool:
    """Returns whether the path has a scheme."""
    return "://" in path


def _store(path: str):
    """Returns the module for a remote path; a program without one loads none."""
    if path.startswith("s3://"):
        from tfrecord_builder.storage import s3_store as store
    else:
        from tfrecord_builder.storage import gfile_store as store
    return store


def exists(path: str) -> bool:
    """Returns whether a file or a directory exists."""
    if _exists(path):
        return True
    member = members.parse(path)
    return member is not None and _exists(member.path)


def _exists(path: str) -> bool:
    return _store(path).exists(path) if is_remote(path) else os.path.exists(path)


def is_directory(path: str) -> bool:
    """Returns whether a path is a directory; in an object store, a bucket or a prefix of objects."""
    return _store(path).is_directory(path) if is_remote(path) else os.path.isdir(path)


def list_names(directory: str) -> list[str]:
    """Returns the names in a directory, sorted."""
    list_them = _store(directory).list_names if is_remote(directory) else os.listdir
    return sorted(set(list_them(directory)))


def find_files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yields the files below a directory that end with a suffix (in any case), in a fixed order.

    Links to directories are followed; each directory is visited once.
    """
    walk = _store(directory).walk(directory, suffixes) if is_remote(directory) else _walk(directory)
    for parent, folders, names in walk:
        folders.sort()  # which both walk in this order
        for name in sorted(names):
            if name.lower().endswith(suffixes):
                yield os.path.join(parent, name)


def _walk(directory: str) -> Iterator[tuple[str, list[str], list[str]]]:
    seen = set()
    for parent, folders, names in os.walk(directory, followlinks=True, onerror=_raise_unless_missing):
        place = os.path.realpath(parent)
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        yield parent, folders, names


def _raise_unless_missing(error: OSError) -> None:
    """Raises the error of a directory that cannot be read; os.walk would omit it."""
    if not isinstance(error, FileNotFoundError):
        raise error


def size_and_time(path: str) -> tuple[int, int]:
    """Returns size in bytes and modification time in ns, which in an object store is in whole seconds."""
    try:
        return _size_and_time(path)
    except FileNotFoundError:
        member = members.parse(path)
        if member is None:
            raise
        return _size_and_time(member.path)


def _size_and_time(path: str) -> tuple[int, int]:
    if is_remote(path):
        return _store(path).size_and_time(path)
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def concerns_one_file(error: OSError) -> bool:
    """Returns whether the file is at fault (missing, forbidden, no archive), not its disk or store."""
    kinds = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
    return isinstance(error, kinds) or error.errno in (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)


def open_binary(path: str) -> BinaryIO:
    """Opens a file for reading; of a remote file or a member of an archive, a temporary copy."""
    try:
        return _store(path).open_copy(path) if is_remote(path) else open(path, "rb")
    except FileNotFoundError:
        member = members.parse(path)
        if member is None:
            raise
        path = member.path
        with _store(path).reading(path) if is_remote(path) else open(path, "rb") as file:
            return members.copy(file, member)


def download(path: str, file: BinaryIO) -> None:
    """Writes a remote file into an open local one."""
    _store(path).download(path, file)


def sha256(path: str) -> str:
    """Returns the sha256 of a file in hex."""
    digest = hashlib.sha256()
    with open_binary(path) as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def make_directory(path: str) -> None:
    """Creates a directory with its parents, unless it exists. Object stores have no directories."""
    if is_remote(path):
        return _store(path).make_directory(path)
    os.makedirs(path, exist_ok=True)


def move(source: str, target: str) -> None:
    """Moves a file within a file system, replacing the target."""
    if is_remote(source):
        return _store(source).move(source, target)
    os.replace(source, target)


def remove(path: str) -> None:
    """Removes a file."""
    if is_remote(path):
        return _store(path).remove(path)
    os.remove(path)


def remove_tree(directory: str) -> None:
    """Removes a directory with its contents."""
    if is_remote(directory):
        return _store(directory).remove_tree(directory)
    shutil.rmtree(directory)


@contextlib.contextmanager
def writing(path: str) -> Iterator[str]:
    """Yields a temporary local path to write to; the file becomes `path` when the block ends without error.

    Nobody sees an incomplete file: a local one is renamed, an object store shows only complete ones.

    Raises:
        errors.UserError: as of find_target.
    """
    path = find_target(path)
    beside = f"{path}.{uuid.uuid4().hex[:8]}.incomplete"
    if is_remote(path):
        with _store(path).uploading(path, beside) as temporary:
            yield temporary
        return
    try:
        yield beside
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):  # a full disk needs the space
            os.remove(beside)
        raise


def find_target(path: str) -> str:
    """Returns the path of a file to write: that of a symbolic link is where it leads, so that the link stays.

    Raises:
        errors.UserError: there is a directory, device, pipe, socket or cycle of links, which must stay.
    """
    if is_remote(path) or not os.path.lexists(path):
        return path
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise errors.UserError(f"{path}: is no regular file, expected one or a new name; give another path")
    return target


def sync(path: str) -> None:
    """Waits until a local file is on its disk, so that a power failure does not change it."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def read_text(path: str) -> str:
    """Reads a UTF-8 file."""
    with open_binary(path) as file:
        return file.read().decode("utf-8")


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 file, complete or not at all."""
    with writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)


def take_lock(descriptor: int, path: str) -> bool:
    """Locks an open local file or directory by flock, without waiting.

    The lock ends with the descriptor. It holds on one machine, and over NFS 4 between machines for a file
    that is open for writing. On a file system without locks every call succeeds.

    Returns:
        False if another process has the lock, or removed the file when it ended.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
