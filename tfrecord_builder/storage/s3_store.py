"""Objects of S3 and of stores that speak its protocol (s3://bucket/key): the functions of files.py.

A path names the key of its normal form; keys with //, /./ or /../ are left out.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import functools
import os
from collections.abc import Iterator
from typing import BinaryIO, Optional

from tfrecord_builder.storage import s3_client

_PARTIAL = 206  # status of a response with a range


def exists(path: str) -> bool:
    if s3_client.split(path)[1]:
        with contextlib.suppress(FileNotFoundError):
            s3_client.head(path)
            return True
    return is_directory(path)


def is_directory(path: str) -> bool:
    bucket, key = s3_client.split(path)
    with s3_client.translated(path):
        listing = s3_client.connect().list_objects_v2(Bucket=bucket, Prefix=_prefix(key), MaxKeys=1)
    return not key or "Contents" in listing


def list_names(directory: str) -> set[str]:
    keys = _list_keys(directory, Delimiter="/")
    return {key.rstrip("/") for key in keys if _is_normal(key.rstrip("/"))}


def find_files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yields the files below a directory that end with a suffix (in any case), in the order of os.walk.

    Lists all objects in pages of 1,000, however many folders there are.
    """
    keys = (key for key in _list_keys(directory) if _is_normal(key) and key.lower().endswith(suffixes))
    for key in sorted(keys, key=_walk_order):
        yield os.path.join(directory, key)


def _walk_order(key: str) -> list[tuple[bool, str]]:
    """Returns a sort key by which the files of a directory come before those of its folders."""
    *folders, name = key.split("/")
    return [*((True, folder) for folder in folders), (False, name)]


def size_and_time(path: str) -> tuple[int, int]:
    metadata = s3_client.head(path)
    return metadata["ContentLength"], int(metadata["LastModified"].timestamp()) * 10**9


def download(path: str, file: BinaryIO) -> None:
    if not s3_client.split(path)[1]:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    with s3_client.translated(path):
        s3_client.connect().download_fileobj(*s3_client.split(path), file)


@contextlib.contextmanager
def reading(path: str, offset: int, num_bytes: Optional[int] = None) -> Iterator[BinaryIO]:
    """Opens an object for reading from a byte on; what is not read is not transferred."""
    bucket, key = s3_client.split(path)
    last = "" if num_bytes is None else offset + max(num_bytes, 1) - 1
    with s3_client.translated(path):
        response = s3_client.connect().get_object(Bucket=bucket, Key=key, Range=f"bytes={offset}-{last}")
        with contextlib.closing(response["Body"]) as file:
            if response["ResponseMetadata"]["HTTPStatusCode"] != _PARTIAL:
                raise OSError(errno.EIO, "the store ignores ranges of bytes", path)
            yield file


def make_directory(path: str) -> None:
    """Checks the bucket; there are no directories."""
    s3_client.check_bucket(s3_client.split(path)[0])


def move(source: str, target: str) -> None:
    bucket, key = s3_client.split(source)
    with s3_client.translated(source):
        s3_client.connect().copy({"Bucket": bucket, "Key": key}, *s3_client.split(target))
    remove(source)


def remove(path: str) -> None:
    """Removes an object; the store does not complain if it does not exist."""
    _delete(*s3_client.split(path))


def remove_tree(directory: str) -> None:
    """Removes the objects below a directory, one by one: not every store can remove several at once."""
    bucket, key = s3_client.split(directory)
    keys = [_prefix(key) + below for below in _list_keys(directory)]
    with concurrent.futures.ThreadPoolExecutor(s3_client.MAX_CONNECTIONS) as pool:
        list(pool.map(functools.partial(_delete, bucket), keys))


def _delete(bucket: str, key: str) -> None:
    with s3_client.translated(f"s3://{bucket}/{key}"):
        s3_client.connect().delete_object(Bucket=bucket, Key=key)


def upload(local_path: str, path: str, beside: str) -> None:
    """Writes a local file to `path`; the store shows only complete objects, so `beside` is not needed."""
    with open(local_path, "rb") as file, s3_client.translated(path):
        s3_client.connect().upload_fileobj(file, *s3_client.split(path))


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""


def _is_normal(key: str) -> bool:
    """Returns whether a path names the key: no component is empty (the marker of a folder), . or .. ."""
    return not {"", ".", ".."} & set(key.split("/"))


def _list_keys(directory: str, **options) -> list[str]:
    """Returns the keys below a directory, without its own; with Delimiter="/" those in it, and its folders.

    Raises:
        FileNotFoundError: there are none.
    """
    bucket, key = s3_client.split(directory)
    keys: list[str] = []
    with s3_client.translated(directory):
        pages = s3_client.connect().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=bucket, Prefix=_prefix(key), **options):
            keys += [item["Key"] for item in page.get("Contents", ())]
            keys += [item["Prefix"] for item in page.get("CommonPrefixes", ())]
    if key and not keys:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
    return [each[len(_prefix(key)) :] for each in keys]
