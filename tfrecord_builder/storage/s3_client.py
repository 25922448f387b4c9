"""The client of s3_store: its settings, its paths, and its errors as OSErrors.

The settings are those of boto3 (AWS_* variables, profiles in ~/.aws) with other timeouts and retries;
S3_ENDPOINT is another name of AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import posixpath
from collections.abc import Iterator
from typing import Optional

MAX_CONNECTIONS = 16
_CONNECT_SECONDS, _READ_SECONDS = 5, 20
_REFUSED = ("AccessDenied", "ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")


def split(path: str) -> tuple[str, str]:
    """Returns bucket and key; the key without . and .., empty for the bucket itself."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, posixpath.normpath(f"/{key}").lstrip("/")


class _SettingError(Exception):
    """boto3 refuses a setting."""


def connect():
    """Returns the client of this process."""
    try:
        return _make_client(os.getpid())  # connections do not survive a fork
    except ValueError as error:
        raise _SettingError(error) from error


@functools.lru_cache(maxsize=1)
def _make_client(pid: int):
    import boto3
    from botocore import config

    logging.getLogger("botocore").setLevel(logging.WARNING)  # it tells where it found the keys
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = endpoint or os.environ.get("S3_ENDPOINT")
    settings = config.Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": os.environ.get("AWS_RETRY_MODE", "standard")},  # three attempts
        max_pool_connections=MAX_CONNECTIONS,
        **_checksums(endpoint),
    )
    session = boto3.session.Session(region_name=os.environ.get("AWS_REGION"))
    return session.client("s3", endpoint_url=endpoint, config=settings)


def _checksums(endpoint: Optional[str]) -> dict[str, str]:
    """Returns no new checksums for a server with a name of its own: many refuse them."""
    if endpoint is None:
        return {}
    names = ("request_checksum_calculation", "response_checksum_validation")
    return {name: os.environ.get(f"AWS_{name.upper()}", "when_required") for name in names}


def head(path: str) -> dict:
    """Returns the metadata of an object."""
    bucket, key = split(path)
    with translated(path):
        return connect().head_object(Bucket=bucket, Key=key)


def check_bucket(bucket: str) -> None:
    """Raises OSError, but not FileNotFoundError, if the bucket is unusable."""
    with translated(f"s3://{bucket}/"):
        connect().head_bucket(Bucket=bucket)


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Raises an OSError for what boto3 raises inside the block."""
    import boto3.exceptions
    import s3transfer.exceptions
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as error:
        raise _os_error(error, path) from error
    except exceptions.NoCredentialsError as error:
        raise PermissionError(errno.EACCES, f"access is refused ({error})", path) from error
    except (
        exceptions.BotoCoreError,
        boto3.exceptions.Boto3Error,
        s3transfer.exceptions.RetriesExceededError,
        s3transfer.exceptions.S3DownloadFailedError,
        _SettingError,
    ) as error:
        raise _unusable(error, path) from error


def _os_error(error, path: str) -> OSError:
    """Returns the OSError of a response."""
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    bucket, key = split(path)
    if status in (401, 403) or code in _REFUSED:
        return PermissionError(errno.EACCES, f"access is refused ({error})", path)
    if code == "NoSuchBucket" or (status == 404 and not key):
        return OSError(errno.ENXIO, "there is no such bucket or server", f"s3://{bucket}/")
    if status == 416:
        return OSError(errno.EINVAL, "the archive ends before its member", path)
    if status != 404:
        return _unusable(error, path)
    try:
        if code != "NoSuchKey":  # a response without a body
            check_bucket(bucket)
    except OSError as unusable:
        return unusable
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _unusable(error: Exception, path: str) -> OSError:
    return OSError(errno.EIO, f"the store cannot be used ({' '.join(str(error).split())})", path)
