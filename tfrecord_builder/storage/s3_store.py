"""Objects of S3 and of stores that speak its protocol (s3://bucket/key), through boto3.

Every failure is an OSError. A path names the key of its normal form; keys with //, /./ or /../ are left out.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import io
import os
import posixpath
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from typing import BinaryIO

from tfrecord_builder.storage import s3_client

_BUFFER_BYTES = 1 << 16
_PARTIAL = 206  # status of a response with a range


def exists(path: str) -> bool:
    """Returns whether an object exists, or a prefix of objects."""
    _, key = s3_client.split(path)
    return bool(key) and _is_object(path) or is_directory(path)


def is_directory(path: str) -> bool:
    """Returns whether a path is a bucket or has objects below it."""
    bucket, key = s3_client.split(path)
    with s3_client.translated(path):
        found = s3_client.connect().list_objects_v2(Bucket=bucket, Prefix=_prefix(key), MaxKeys=1)
    return not key or "Contents" in found


def list_names(directory: str) -> set[str]:
    """Returns the names in a directory."""
    _, key = s3_client.split(directory)
    prefix = _prefix(key)
    pages = list(_list_pages(directory, Delimiter="/"))
    keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
    keys += [each["Prefix"].rstrip("/") for page in pages for each in page.get("CommonPrefixes", ())]
    _check_found(directory, keys)
    return {each[len(prefix) :] for each in keys if _is_normal(each[len(prefix) :])}


def walk(directory: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walks as os.walk, but yields only files that end with a suffix (in any case), and their folders.

    Lists all objects in pages of 1,000, however many folders there are.
    """
    folders, names = defaultdict(set), defaultdict(list)
    for key in _list_keys(directory):
        if _is_normal(key) and key.lower().endswith(suffixes):
            parent, _, name = key.rpartition("/")
            names[parent].append(name)
            while parent:
                above, _, name = parent.rpartition("/")
                folders[above].add(name)
                parent = above

    def descend(parent):
        yield os.path.join(directory, parent).rstrip("/"), sorted(folders[parent]), sorted(names[parent])
        for name in sorted(folders[parent]):
            yield from descend(posixpath.join(parent, name))

    return descend("")


def size_and_time(path: str) -> tuple[int, int]:
    """Returns size in bytes and modification time in ns, which is in whole seconds."""
    found = s3_client.head(path)
    return found["ContentLength"], int(found["LastModified"].timestamp()) * 10**9


def open_copy(path: str) -> BinaryIO:
    """Opens a temporary copy of an object."""
    copy = tempfile.TemporaryFile()
    download(path, copy)
    copy.seek(0)
    return copy


def download(path: str, file: BinaryIO) -> None:
    """Writes an object into an open file."""
    if not s3_client.split(path)[1]:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    with s3_client.translated(path):
        s3_client.connect().download_fileobj(*s3_client.split(path), file)


@contextlib.contextmanager
def reading(path: str) -> Iterator[BinaryIO]:
    """Opens an object, of which only the parts that are read are transferred."""
    with io.BufferedReader(_Ranges(path), _BUFFER_BYTES) as file:
        yield file


def make_directory(path: str) -> None:
    """Checks the bucket; there are no directories."""
    s3_client.check_bucket(s3_client.split(path)[0])


def move(source: str, target: str) -> None:
    """Moves an object, replacing the target."""
    bucket, key = s3_client.split(source)
    with s3_client.translated(source):
        s3_client.connect().copy({"Bucket": bucket, "Key": key}, *s3_client.split(target))
    remove(source)


def remove(path: str) -> None:
    """Removes an object; the store does not complain if it does not exist."""
    bucket, key = s3_client.split(path)
    with s3_client.translated(path):
        s3_client.connect().delete_object(Bucket=bucket, Key=key)


def remove_tree(directory: str) -> None:
    """Removes the objects below a directory, one by one: not every store can remove several at once."""
    bucket, key = s3_client.split(directory)
    keys = [_prefix(key) + each for each in _list_keys(directory)]

    def remove_key(each):
        with s3_client.translated(f"s3://{bucket}/{each}"):
            s3_client.connect().delete_object(Bucket=bucket, Key=each)

    with concurrent.futures.ThreadPoolExecutor(s3_client.MAX_CONNECTIONS) as pool:
        list(pool.map(remove_key, keys))


@contextlib.contextmanager
def uploading(path: str, beside: str) -> Iterator[str]:
    """Yields a temporary local path to write to; it is uploaded when the block ends without error."""
    with tempfile.TemporaryDirectory() as directory:
        temporary = os.path.join(directory, os.path.basename(path))
        yield temporary
        with open(temporary, "rb") as file, s3_client.translated(path):
            s3_client.connect().upload_fileobj(file, *s3_client.split(path))


class _Ranges(io.RawIOBase):
    """An object, read by ranges."""

    def __init__(self, path: str):
        self._path, self._position = path, 0
        found = s3_client.head(path)
        self._size, self._etag = found["ContentLength"], found["ETag"]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self._path)
        self._position = origin + offset
        return self._position

    def readinto(self, buffer) -> int:
        count = min(len(buffer), self._size - self._position)
        if count <= 0:
            return 0
        block = self._get(count)
        buffer[:count] = block
        self._position += count
        return count

    def _get(self, count: int) -> bytes:
        bucket, key = s3_client.split(self._path)
        wanted = f"bytes={self._position}-{self._position + count - 1}"
        with s3_client.translated(self._path):
            found = s3_client.connect().get_object(Bucket=bucket, Key=key, Range=wanted, IfMatch=self._etag)
            if found["ResponseMetadata"]["HTTPStatusCode"] != _PARTIAL:
                raise OSError(errno.EIO, "the store ignores ranges of bytes", self._path)
            block = found["Body"].read()
        if len(block) != count:
            raise OSError(errno.EIO, f"the store sent {len(block)} bytes, expected {count}", self._path)
        return block


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""


def _is_normal(key: str) -> bool:
    """Returns whether a path names the key: no component is empty (the marker of a folder), . or .. ."""
    return not {"", ".", ".."} & set(key.split("/"))


def _list_pages(directory: str, **options) -> Iterator[dict]:
    bucket, key = s3_client.split(directory)
    with s3_client.translated(directory):
        pages = s3_client.connect().get_paginator("list_objects_v2")
        yield from pages.paginate(Bucket=bucket, Prefix=_prefix(key), **options)


def _list_keys(directory: str) -> list[str]:
    """Returns the keys below a directory, without its own; raises FileNotFoundError if there are none."""
    skip = len(_prefix(s3_client.split(directory)[1]))
    keys = [each["Key"] for page in _list_pages(directory) for each in page.get("Contents", ())]
    _check_found(directory, keys)
    return [each[skip:] for each in keys]


def _check_found(directory: str, keys: list[str]) -> None:
    if not keys and s3_client.split(directory)[1]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)


def _is_object(path: str) -> bool:
    try:
        s3_client.head(path)
    except FileNotFoundError:
        return False
    return True
