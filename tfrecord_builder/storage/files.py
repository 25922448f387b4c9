"""File functions for local files, remote files and members of archives.

Paths with a scheme are handled by s3_store (s3://) or gfile_store (gs://, hdfs://), others by the operating
system. A path may also name a member of an archive (speech.ark:17, see members.py), whose size and time
are those of the archive. Every failure raises an OSError, as with open().
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from tfrecord_builder import errors
from tfrecord_builder.program import urls
from tfrecord_builder.storage import members

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # tabs, line breaks, terminal control characters


def escape_controls(text: str) -> str:
    """Escapes control characters in text, such as a path, with backslashes, to keep the text on one line."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def _store(path: str):
    """Imports and returns the module that handles a remote path."""
    if path.startswith("s3://"):
        from tfrecord_builder.storage import s3_store as store
    else:
        from tfrecord_builder.storage import gfile_store as store
    return store


def exists(path: str) -> bool:
    """Returns True if a file or directory exists, or if the path names a member of an existing archive."""
    member = members.parse(path)
    paths = (path, member.path) if member else (path,)
    return any(_store(name).exists(name) if urls.is_remote(name) else os.path.exists(name) for name in paths)


def is_directory(path: str) -> bool:
    """Returns True if a path is a directory or, in an object store, a bucket or a prefix with objects."""
    return _store(path).is_directory(path) if urls.is_remote(path) else os.path.isdir(path)


def list_names(directory: str) -> list[str]:
    """Returns the names of the files and folders in a directory, sorted."""
    return sorted(
        _store(directory).list_names(directory) if urls.is_remote(directory) else os.listdir(directory)
    )


def find_files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yields the files with one of the suffixes (in any case) under a directory, in a fixed order.

    Follows links to directories, and visits each directory only once.
    """
    if urls.is_remote(directory):
        yield from _store(directory).find_files(directory, suffixes)
        return
    seen = set()
    for parent, folders, names in os.walk(directory, followlinks=True, onerror=_raise_unless_missing):
        place = os.path.realpath(parent)
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        folders.sort()
        yield from (os.path.join(parent, name) for name in sorted(names) if name.lower().endswith(suffixes))


def _raise_unless_missing(error: OSError) -> None:
    """Raises an error that os.walk would ignore: a directory exists but cannot be read."""
    if not isinstance(error, FileNotFoundError):
        raise error


def size_and_time(path: str) -> tuple[int, int]:
    """Returns the size in bytes and the modification time in ns, which object stores may round to seconds."""
    try:
        return _size_and_time(path)
    except FileNotFoundError:
        member = members.parse(path)
        if member is None:
            raise
        return _size_and_time(member.path)


def _size_and_time(path: str) -> tuple[int, int]:
    if urls.is_remote(path):
        return _store(path).size_and_time(path)
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def concerns_one_file(error: OSError) -> bool:
    """Returns True if an error concerns one file (missing, forbidden, invalid), not the whole storage."""
    kinds = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
    return isinstance(error, kinds) or error.errno in (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)


def open_binary(path: str) -> BinaryIO:
    """Opens a file for reading; remote files and archive members are first copied to a temporary file."""
    try:
        return _open_copy(path) if urls.is_remote(path) else open(path, "rb", opener=_open_regular)
    except FileNotFoundError:
        member = members.parse(path)
        if member is None:
            raise
        with _reading(member) as file:
            return members.copy(file, member)


def _open_regular(path: str, flags: int) -> int:
    """Opener for open() that rejects pipes, which would block, and devices, which may never end."""
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # open() itself refuses directories
        return os.open(path, flags)
    raise OSError(errno.EINVAL, "Not a regular file", path)


def _open_copy(path: str) -> BinaryIO:
    with contextlib.ExitStack() as stack:
        copy = stack.enter_context(tempfile.TemporaryFile())
        download(path, copy)
        copy.seek(0)
        stack.pop_all()
    return copy


@contextlib.contextmanager
def _reading(member: members.Member) -> Iterator[BinaryIO]:
    """Opens an archive, positioned at the start of a member."""
    if urls.is_remote(member.path):
        with _store(member.path).reading(member.path, member.offset, member.num_bytes) as file:
            yield file
    else:
        with open(member.path, "rb", opener=_open_regular) as file:
            file.seek(member.offset)
            yield file


def download(path: str, file: BinaryIO) -> None:
    """Copies a remote file into an open local file."""
    _store(path).download(path, file)


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file as hex digits."""
    digest = hashlib.sha256()
    with open_binary(path) as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def make_directory(path: str) -> None:
    """Creates a directory and its parents if they do not exist; object stores do not need directories."""
    if urls.is_remote(path):
        return _store(path).make_directory(path)
    os.makedirs(path, exist_ok=True)


def move(source: str, target: str) -> None:
    """Moves a file within a file system; an existing target is replaced."""
    _store(source).move(source, target) if urls.is_remote(source) else os.replace(source, target)


def remove(path: str) -> None:
    """Removes a file."""
    _store(path).remove(path) if urls.is_remote(path) else os.remove(path)


def remove_tree(directory: str) -> None:
    """Removes a directory and its contents."""
    _store(directory).remove_tree(directory) if urls.is_remote(directory) else shutil.rmtree(directory)


@contextlib.contextmanager
def writing(path: str) -> Iterator[str]:
    """Yields a temporary local path to write to; if the block succeeds, the file is moved to `path`.

    An incomplete file is never visible: local files are renamed, and object stores show only complete files.
    Raises errors.UserError, as find_target does.
    """
    path = find_target(path)
    beside = f"{path}.{uuid.uuid4().hex[:8]}.incomplete"
    if urls.is_remote(path):
        with tempfile.TemporaryDirectory() as directory:
            temporary = os.path.join(directory, os.path.basename(path))
            yield temporary
            _store(path).upload(temporary, path, beside)
        return
    try:
        yield beside
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):  # removed to free space, because the disk may be full
            os.remove(beside)
        raise


def find_target(path: str) -> str:
    """Returns the actual path of a file to write; resolves symbolic links, so that the links are kept.

    Raises errors.UserError if the path is a directory, device, pipe, socket or circular link.
    """
    if urls.is_remote(path) or not os.path.lexists(path):
        return path
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise errors.UserError(f"{path} exists and is not a regular file; choose another path")
    return target


def sync(path: str) -> None:
    """Waits until a local file has been written to disk, so that it survives a power failure."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def read_text(path: str) -> str:
    """Reads a UTF-8 file."""
    with open_binary(path) as file:
        return file.read().decode("utf-8")


def copy(source: str, target: str) -> None:
    """Copies a file; if this fails, the target is unchanged."""
    with open_binary(source) as old, writing(target) as temporary, open(temporary, "wb") as new:
        shutil.copyfileobj(old, new)


def write_text(path: str, text: str) -> None:
    """Writes text to a UTF-8 file; if this fails, an existing file is unchanged."""
    with writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
