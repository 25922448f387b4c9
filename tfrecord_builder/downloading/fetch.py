"""One resumable HTTP(S) download.

The file grows from its first byte to its last. Another call, even after the death of the process, asks for
what is missing alone, but for all of it if the file has changed in the meantime:

    Range: bytes=262144-
    If-Range: "5c8-1a2b"

Whether what came is what was meant is for the caller to check, by its checksum.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import sys
import time

import requests
import tqdm
import urllib3
from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.downloading import responses, sidecar

_CHUNK_BYTES = 1 << 16
_NO_FAILURE_BYTES = 1 << 24  # an attempt that brings as much does not count as failed


@dataclasses.dataclass(frozen=True)
class Patience:
    """How long to wait for a server: silence that ends an attempt, and the pauses before further attempts."""

    timeout_seconds: float = 60.0
    pauses_seconds: tuple[float, ...] = (1, 4, 15, 60, 60)


PATIENCE = Patience()


def fetch(address: str, path: str, about_bytes: int, patience: Patience = PATIENCE) -> None:
    """Downloads what lies at an address, going on from what there is of it.

    Args:
      address: http:// or https://; redirects are followed.
      path: file to write or to go on with.
      about_bytes: its size, to a hundredth; an answer of another size is not the file and is refused.
      patience: when to give up.

    Raises:
      UserError: the server refuses, contradicts itself or cannot be reached, or there is no room. What came
        is kept.
      OSError: the file cannot be written.
    """
    pauses = list(patience.pauses_seconds)
    while True:
        before = _length(path)
        try:
            return _attempt(address, path, about_bytes, patience.timeout_seconds)
        except responses.TryLater as reason:
            if _length(path) - before >= _NO_FAILURE_BYTES:
                pauses = list(patience.pauses_seconds)
            if not pauses:
                raise errors.UserError(
                    f"{address}: the download ends at {_length(path):,} bytes ({reason}), expected all of "
                    f"it; call again, it goes on at {_length(path):,} bytes."
                ) from None
            logging.warning("%s: %s; another attempt in %g s", address, reason, pauses[0])
            time.sleep(pauses.pop(0))


def _attempt(address: str, path: str, about_bytes: int, timeout_seconds: float) -> None:
    """Asks once for what is missing, and takes what comes."""
    known, offset = sidecar.load(path), _length(path)
    if offset and offset == known.num_bytes:
        return
    headers = _request_headers(address, offset, known)
    try:
        with requests.get(address, headers=headers, stream=True, timeout=timeout_seconds) as response:
            body = responses.read(response, address, offset, known, about_bytes)
            if body is None:
                return
            _check_room(path, about_bytes - body.start)
            received = _receive(response, path, body, address, about_bytes)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise responses.TryLater(_reason(error, timeout_seconds)) from error
    except errors.UserError:
        raise
    except ValueError as error:  # urllib's own, of a redirect to what is no address
        raise responses.TryLater(str(error)) from error
    if not responses.is_whole(received, body.end, about_bytes):
        raise responses.TryLater("the connection broke off")


def _request_headers(address: str, offset: int, known: sidecar.Origin) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}  # the archive as it is, not packed once more for the road
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if known.validator and known.address == address:  # another mirror has marks of its own
            headers["If-Range"] = known.validator
    return headers


def _check_room(path: str, num_bytes: int) -> None:
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free
    if num_bytes > free:
        raise errors.UserError(
            f"{path}: {free:,} bytes are free on its disk, expected {num_bytes:,}, and twice that to unpack; "
            "make room and call again."
        )


def _receive(
    response: requests.Response, path: str, body: responses.Body, address: str, about_bytes: int
) -> int:
    """Writes a body to its place in the file, and gives how long the file then is."""
    received, most = body.start, responses.most_bytes(body.end, about_bytes)
    with open(path, "ab" if body.start else "wb") as file, _progress_bar(path, body) as bar:
        if not body.start:
            sidecar.save(path, sidecar.Origin(address, _validator(response), body.end))
        while chunk := response.raw.read(_CHUNK_BYTES, decode_content=False):
            received += len(chunk)
            if received > most:
                expected = "as many as it said" if body.end is not None else f"about {about_bytes:,}"
                raise responses.contradiction(address, f"more than {most:,} bytes", expected)
            file.write(chunk)
            bar.update(len(chunk))
    return received


def _progress_bar(path: str, body: responses.Body) -> tqdm.tqdm:
    name, quiet = os.path.basename(path), not sys.stderr.isatty()
    return tqdm.tqdm(desc=name, initial=body.start, total=body.end, unit="B", unit_scale=True, disable=quiet)


def _validator(response: requests.Response) -> str | None:
    """Gives the mark of this version of the file; a weak ETag is none for If-Range (RFC 9110, 13.1.5)."""
    etag = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else response.headers.get("Last-Modified")


def _reason(error: BaseException, timeout_seconds: float) -> str:
    """Says in words what is at the bottom of a failed connection."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    if isinstance(error, (socket.timeout, TimeoutError, urllib3.exceptions.TimeoutError)):
        return f"no answer for {timeout_seconds:g} s"
    if isinstance(error, requests.RequestException):
        return str(error)
    return getattr(error, "strerror", None) or "the connection broke off"


def _length(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0
