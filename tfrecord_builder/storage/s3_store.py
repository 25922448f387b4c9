"""Implements the functions in files.py for S3 and compatible object stores (s3://bucket/key).

Paths are normalised, so keys with //, /./ or /../ cannot be accessed and are not listed. Except for timeouts
and retries, the settings are boto3's (AWS_* variables, profiles in ~/.aws); S3_ENDPOINT can be set instead of
AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import functools
import logging
import os
import posixpath
from collections.abc import Iterator
from typing import Any, BinaryIO, Optional

from tfrecord_builder import errors

_MAX_CONNECTIONS = 16
_CONNECT_SECONDS, _READ_SECONDS = 5, 20
_REFUSED = ("ExpiredToken", "InvalidToken")  # error codes that deny access although the status is 400
_PARTIAL = 206  # HTTP status of a response that contains only the requested range


def exists(path: str) -> bool:
    if _split(path)[1]:
        with contextlib.suppress(FileNotFoundError):
            _head(path)
            return True
    return is_directory(path)


def is_directory(path: str) -> bool:
    with request(path) as (client, bucket, key):
        listing = client.list_objects_v2(Bucket=bucket, Prefix=_prefix(key), MaxKeys=1)
    return not key or "Contents" in listing


def list_names(directory: str) -> set[str]:
    keys = _list_keys(directory, Delimiter="/")
    return {key.rstrip("/") for key in keys if _is_normal(key.rstrip("/"))}


def find_files(directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Lists all objects under a directory (1,000 per request); yields the paths with one of the suffixes."""
    keys = (key for key in _list_keys(directory) if _is_normal(key) and key.lower().endswith(suffixes))
    for key in sorted(keys, key=_walk_order):
        yield os.path.join(directory, key)


def size_and_time(path: str) -> tuple[int, int]:
    metadata = _head(path)
    return metadata["ContentLength"], int(metadata["LastModified"].timestamp()) * 10**9


def download(path: str, file: BinaryIO) -> None:
    with request(path) as (client, bucket, key):
        if not key:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        client.download_fileobj(bucket, key, file)


@contextlib.contextmanager
def reading(path: str, offset: int, num_bytes: Optional[int] = None) -> Iterator[BinaryIO]:
    """Opens an object for reading, starting at byte `offset`; unread bytes are not transferred."""
    last = "" if num_bytes is None else offset + max(num_bytes, 1) - 1
    with request(path) as (client, bucket, key):
        response = client.get_object(Bucket=bucket, Key=key, Range=f"bytes={offset}-{last}")
        with contextlib.closing(response["Body"]) as file:
            if response["ResponseMetadata"]["HTTPStatusCode"] != _PARTIAL:
                raise OSError(errno.EIO, "the object store cannot read part of an object", path)
            yield file


def make_directory(path: str) -> None:
    """Only checks that the bucket can be used, because object stores have no directories."""
    _check_bucket(path)


def move(source: str, target: str) -> None:
    with request(source) as (client, bucket, key):
        client.copy({"Bucket": bucket, "Key": key}, *_split(target))
    remove(source)


def remove(path: str) -> None:
    """Removes an object; does nothing if the object does not exist."""
    with request(path) as (client, bucket, key):
        client.delete_object(Bucket=bucket, Key=key)


def remove_tree(directory: str) -> None:
    """Removes all objects under a directory, one per request; some stores cannot remove several at once."""
    keys = _list_keys(directory)
    with (
        request(directory) as (client, bucket, key),
        concurrent.futures.ThreadPoolExecutor(_MAX_CONNECTIONS) as pool,
    ):
        list(pool.map(lambda name: client.delete_object(Bucket=bucket, Key=_prefix(key) + name), keys))


def upload(local_path: str, path: str, beside: str) -> None:
    """Copies a local file to `path`; `beside` is ignored, because the store shows only complete objects."""
    with open(local_path, "rb") as file, request(path) as (client, bucket, key):
        client.upload_fileobj(file, bucket, key)


@contextlib.contextmanager
def request(path: str) -> Iterator[tuple[Any, str, str]]:
    """Yields a client, and a path's bucket and key; converts boto3's errors in the block to OSErrors."""
    try:
        import boto3.exceptions
        import s3transfer.exceptions
        from botocore import exceptions
    except ImportError as error:
        raise errors.library_missing(path, error, "s3") from error
    try:
        client = connect()
    except (ValueError, exceptions.BotoCoreError) as error:  # boto3's settings are invalid
        raise _unusable(error, path) from error
    try:
        yield (client, *_split(path))
    except exceptions.ClientError as error:
        raise _os_error(error, path) from error
    except exceptions.NoCredentialsError as error:
        raise PermissionError(errno.EACCES, f"access was denied ({error})", path) from error
    except (
        exceptions.BotoCoreError,
        boto3.exceptions.Boto3Error,
        s3transfer.exceptions.RetriesExceededError,
        s3transfer.exceptions.S3DownloadFailedError,
    ) as error:
        raise _unusable(error, path) from error


def connect():
    """Returns this process's client; each process has its own, because connections do not survive a fork."""
    return _make_client(os.getpid())


@functools.lru_cache(maxsize=1)
def _make_client(pid: int):
    import boto3
    from botocore import config

    logging.getLogger("botocore").setLevel(logging.WARNING)  # hides botocore's log line about credentials
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = endpoint or os.environ.get("S3_ENDPOINT")
    settings = config.Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": os.environ.get("AWS_RETRY_MODE", "standard")},  # "standard": three attempts
        max_pool_connections=_MAX_CONNECTIONS,
        **_checksums(endpoint),
    )
    session = boto3.session.Session(region_name=os.environ.get("AWS_REGION"))
    return session.client("s3", endpoint_url=endpoint, config=settings)


def _checksums(endpoint: Optional[str]) -> dict[str, str]:
    """Returns options that turn off S3's newer checksums for custom endpoints, many of which reject them."""
    if endpoint is None:
        return {}
    names = ("request_checksum_calculation", "response_checksum_validation")
    return {name: os.environ.get(f"AWS_{name.upper()}", "when_required") for name in names}


def _split(path: str) -> tuple[str, str]:
    """Returns a path's bucket and its key, with . and .. resolved; the key is empty for the bucket itself."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, posixpath.normpath(f"/{key}").lstrip("/")


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""


def _is_normal(key: str) -> bool:
    """Returns True if a path can name the key: no component is ".", ".." or empty (as in folder markers)."""
    return not {"", ".", ".."} & set(key.split("/"))


def _walk_order(key: str) -> list[tuple[bool, str]]:
    """Returns a sort key that puts the files of a directory before the files of its subdirectories."""
    *folders, name = key.split("/")
    return [*((True, folder) for folder in folders), (False, name)]


def _list_keys(directory: str, **options) -> list[str]:
    """Returns keys relative to a directory: all keys under it or, with Delimiter="/", its entries.

    Raises FileNotFoundError if there are no such keys.
    """
    keys: list[str] = []
    with request(directory) as (client, bucket, key):
        pages = client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=bucket, Prefix=_prefix(key), **options):
            keys += [item["Key"] for item in page.get("Contents", ())]
            keys += [item["Prefix"] for item in page.get("CommonPrefixes", ())]
        if key and not keys:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
    return [name[len(_prefix(key)) :] for name in keys]


def _head(path: str) -> dict:
    with request(path) as (client, bucket, key):
        return client.head_object(Bucket=bucket, Key=key)


def _check_bucket(path: str) -> None:
    """Raises OSError, but not FileNotFoundError, if the bucket cannot be used."""
    with request(f"s3://{_split(path)[0]}/") as (client, bucket, _):
        client.head_bucket(Bucket=bucket)


def _os_error(error, path: str) -> OSError:
    """Converts an error response of the store to an OSError."""
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    bucket, key = _split(path)
    if status in (401, 403) or code in _REFUSED:
        return PermissionError(errno.EACCES, f"access was denied ({error})", path)
    if code == "NoSuchBucket" or (status == 404 and not key):
        return OSError(errno.ENXIO, "there is no such bucket or server", f"s3://{bucket}/")
    if status == 416:
        return OSError(errno.EINVAL, "the archive ends before the member begins", path)
    if status != 404:
        return _unusable(error, path)
    try:
        if code != "NoSuchKey":  # responses to HEAD requests have no body and no error code
            _check_bucket(path)
    except OSError as unusable:
        return unusable
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _unusable(error: Exception, path: str) -> OSError:
    return OSError(errno.EIO, f"the storage cannot be used ({' '.join(str(error).split())})", path)
