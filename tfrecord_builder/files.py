"""Files here and in object stores, by one set of names.

A path with a scheme (gs://, s3://, hdfs://) goes to remote_files, every other to the operating system. A path
may also name a part of a file (speech.ark:17, see members.py): it exists, has the size and time of the whole
file, and can be opened.
Whatever is refused is an OSError, as from open().
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

from tfrecord_builder import members, remote_files

# What flock says where a file system has no locks: NFS has none for directories.
_NO_LOCKS = (errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def is_remote(path: str) -> bool:
    """True if TensorFlow's file systems serve the path."""
    return "://" in path


def exists(path: str) -> bool:
    """True for a file or a directory."""
    if _exists(path):
        return True
    member = members.parse(path)
    return member is not None and _exists(member.path)


def _exists(path: str) -> bool:
    return remote_files.exists(path) if is_remote(path) else os.path.exists(path)


def is_directory(path: str) -> bool:
    """True for a directory; in an object store, for what has objects below it, and for a bucket."""
    return remote_files.is_directory(path) if is_remote(path) else os.path.isdir(path)


def list_names(directory: str) -> list[str]:
    """Gives the names in a directory, sorted."""
    return sorted(remote_files.list_names(directory) if is_remote(directory) else set(os.listdir(directory)))


def find_files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yields the files below a directory whose names end so (in any case), in an order that stays.

    Links to directories are followed, each directory is visited once.
    """
    walk = remote_files.walk(directory, suffixes) if is_remote(directory) else _walk(directory)
    for parent, folders, names in walk:
        folders.sort()  # both go down in this order
        for name in sorted(names):
            if name.lower().endswith(suffixes):
                yield os.path.join(parent, name)


def _walk(directory: str) -> Iterator[tuple[str, list[str], list[str]]]:
    seen = set()
    for parent, folders, names in os.walk(directory, followlinks=True, onerror=_refuse):
        place = os.path.realpath(parent)
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        yield parent, folders, names


def _refuse(error: OSError) -> None:
    """Lets a directory that cannot be read be known; os.walk would leave it out."""
    if not isinstance(error, FileNotFoundError):
        raise error


def size_and_time(path: str) -> tuple[int, int]:
    """Gives bytes and the time of the last change in ns; a file that is replaced changes at least one.

    An object store tells whole seconds: two versions of one size within a second look the same.
    """
    try:
        return _size_and_time(path)
    except FileNotFoundError:
        member = members.parse(path)
        if member is None:
            raise
        return _size_and_time(member.path)


def _size_and_time(path: str) -> tuple[int, int]:
    if is_remote(path):
        return remote_files.size_and_time(path)
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def concerns_one_file(error: OSError) -> bool:
    """True if the file is missing, forbidden or no part of an archive; False if its disk or store fails."""
    kinds = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
    return isinstance(error, kinds) or error.errno in (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)


def open_binary(path: str) -> BinaryIO:
    """Opens a file for reading; of what is remote or in an archive a copy, in which all can be sought."""
    try:
        return remote_files.open_copy(path) if is_remote(path) else open(path, "rb")
    except FileNotFoundError:
        member = members.parse(path)
        if member is None:
            raise
        with _open_to_copy(member.path) as file:
            return members.copy(file, member)


def _open_to_copy(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    return remote_files.reading(path) if is_remote(path) else open(path, "rb")


def sha256(path: str) -> str:
    """Gives the hex digest of a file, in memory that does not grow with it."""
    digest = hashlib.sha256()
    with open_binary(path) as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def make_directory(path: str) -> None:
    """Makes a directory and those above it; one that is there is fine. Object stores have nothing to make."""
    if is_remote(path):
        remote_files.make_directory(path)
    else:
        os.makedirs(path, exist_ok=True)


def move(source: str, target: str) -> None:
    """Moves a file within a file system, over the target if there is one."""
    if is_remote(source):
        remote_files.move(source, target)
    else:
        os.replace(source, target)


def remove(path: str) -> None:
    """Removes a file."""
    if is_remote(path):
        remote_files.remove(path)
    else:
        os.remove(path)


def remove_tree(directory: str) -> None:
    """Removes a directory and all that is below it."""
    if is_remote(directory):
        remote_files.remove_tree(directory)
    else:
        shutil.rmtree(directory)


@contextlib.contextmanager
def writing(path: str) -> Iterator[str]:
    """Gives a local name to write to, and puts the file in place when the block ends without an error.

    Nobody sees a part of it: it is renamed from a name beside it that no other process takes, here or on
    another machine; an object store shows a file when it has all of it.
    """
    beside = f"{path}.{uuid.uuid4().hex[:8]}.incomplete"
    if is_remote(path):
        with remote_files.uploading(path, beside) as temporary:
            yield temporary
        return
    try:
        yield beside
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):  # on a full disk, a part of a shard would take the last room
            os.remove(beside)
        raise


def take_lock(descriptor: int, path: str) -> bool:
    """Locks an open local file or directory (flock) against others that call this; they are not waited for.

    The system gives the lock back when the descriptor is closed, however the process ends. It holds on one
    machine; over NFS 4 between machines too, for a file that is open for writing. Where the file system has
    no locks, nobody is kept out.

    Returns:
      False if another process holds it, or removed it when it ended: then it may be made again.
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
