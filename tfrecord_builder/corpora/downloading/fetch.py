"""Downloads files over HTTP(S), resumes partial ones (`Range: bytes=262144-`), and verifies MD5 sums."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from typing import Optional

import requests
import urllib3
from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.program import progress_bar

_CHUNK_BYTES = 1 << 16
_RESET_BYTES = 1 << 24  # an attempt that receives this many bytes is not counted as a failure
_SIZE_TOLERANCE = 0.01  # some sizes are published to only three digits
_RETRIED_STATUS_CODES = (408, 429, 500, 502, 503, 504)
_TIMEOUT_SECONDS = 60.0  # maximum time to wait for data from the server
_PAUSES_SECONDS = (1, 4, 15, 60, 60)  # pauses before the retries


class _RetryableError(Exception):
    """A failure after which a retry may succeed."""


def fetch(url: str, path: str, expected_bytes: int) -> None:
    """Downloads a file of about expected_bytes to `path`, starting after the bytes already stored there.

    Raises UserError if the server refuses the request, sends a different file or cannot be reached, or there
    is too little free disk space, and OSError if the file cannot be written. Received data is kept.
    """
    pauses = list(_PAUSES_SECONDS)
    while True:
        before = _size(path)
        try:
            return _attempt(url, path, expected_bytes)
        except errors.UserError:
            raise
        except (ValueError, requests.TooManyRedirects) as error:  # redirects in circles or to file:// URLs
            raise _unexpected(url, f"a redirect that cannot be followed ({error})", "the archive") from error
        except (_RetryableError, requests.RequestException, urllib3.exceptions.HTTPError) as error:
            cause: BaseException = error  # urllib3's own messages repeat the whole URL
            while cause.__context__:
                cause = cause.__context__
            reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        if _size(path) - before >= _RESET_BYTES:
            pauses = list(_PAUSES_SECONDS)
        if not pauses:
            raise errors.UserError(
                f"{url}: the download stopped at {_size(path):,} of about {expected_bytes:,} bytes "
                f"({reason}); run the command again to continue."
            )
        logging.warning("%s: %s; next attempt in %g s", url, reason, pauses[0])
        time.sleep(pauses.pop(0))


def _attempt(url: str, path: str, expected_bytes: int) -> None:
    offset = _size(path)
    headers = {"Accept-Encoding": "identity"}  # the archive is already compressed
    if offset:
        headers["Range"] = f"bytes={offset}-"
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS) as response:
        if response.status_code == 416 and offset:
            return  # no bytes are missing
        _check_response(response, url)
        start, total = _content_range(response, url, offset)
        slack = expected_bytes * _SIZE_TOLERANCE
        if total is not None and abs(total - expected_bytes) > slack:
            raise _unexpected(url, f"{total:,} bytes", f"about {expected_bytes:,}")
        _check_free_space(path, expected_bytes - start)
        least, most = (expected_bytes - slack, expected_bytes + slack) if total is None else (total, total)
        received = _receive(response, path, start, most)
    if received > most:
        raise _unexpected(url, f"{received:,} bytes or more", f"{total or expected_bytes:,}")
    if received < least:
        raise _RetryableError("the connection was closed")


def _check_response(response: requests.Response, url: str) -> None:
    """Raises an error if the response is not a file, so that a login page cannot overwrite received data."""
    content_type = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
    status = f"status {response.status_code} ({response.reason})"
    if response.status_code in _RETRIED_STATUS_CODES:
        raise _RetryableError(f"the server returned {status}")
    if response.status_code not in (200, 206):
        raise _unexpected(url, status, "the archive")
    if content_type in ("text/html", "application/xhtml+xml"):
        raise _unexpected(url, f"a page ({content_type})", "the archive")


def _content_range(response: requests.Response, url: str, offset: int) -> tuple[int, Optional[int]]:
    """Returns the offset of the response body within the file, and the file's size (None if unknown)."""
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch("[0-9]+", length) else None
    text = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", text.strip())
    if not match or int(match[1]) != offset:
        raise _unexpected(url, f"Content-Range {text!r}", f"bytes {offset}-")
    return offset, int(match[2])


def _unexpected(url: str, got: str, expected: str) -> errors.UserError:
    return errors.UserError(
        f"{url}: the server returned {got}, expected {expected}; "
        "open the address in a browser to see why, or pass another --mirror."
    )


def _check_free_space(path: str, num_bytes: int) -> None:
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free
    if num_bytes > free:
        raise errors.UserError(
            f"{path}: free disk space is {free:,} bytes, but the download needs {num_bytes:,}, and unpacking "
            "needs twice as much; free some space and run the command again."
        )


def _receive(response: requests.Response, path: str, start: int, most: float) -> int:
    """Writes the body to the file from byte `start` on; returns the file's size, at most `most` + a chunk."""
    received, name = start, os.path.basename(path)
    with (
        open(path, "ab" if start else "wb") as file,
        progress_bar.ProgressBar(desc=name, initial=start, total=most, unit="B", unit_scale=True) as bar,
    ):
        while received <= most and (chunk := response.raw.read(_CHUNK_BYTES, decode_content=False)):
            file.write(chunk)
            received += len(chunk)
            bar.update(len(chunk))
    return received


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def check_md5(path: str, md5: str) -> None:
    """If a file's MD5 sum differs from `md5`, renames the file to <path>.wrong and raises UserError."""
    digest = hashlib.md5(usedforsecurity=False)  # MD5 sums are used only to detect damage
    with open(path, "rb") as plain:
        size, name = os.path.getsize(path), os.path.basename(path)
        with progress_bar.ProgressBar.wrapattr(plain, "read", size, desc=f"verifying {name}") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    if digest.hexdigest() != md5:
        os.replace(path, f"{path}.wrong")
        raise errors.UserError(
            f"{path}.wrong: MD5 sum is {digest.hexdigest()}, expected {md5}; the download was kept under "
            "this name. Run the command again to repeat the download, or pass another --mirror."
        )
