"""What a server's answer means for a file of which the first `offset` bytes are there.

200                          the whole file: the server knows no ranges, or the file has changed
206  bytes 262144-999/1000   what is missing
416                          nothing is missing
"""

from __future__ import annotations

import dataclasses
import re

import requests

from tfrecord_builder import errors
from tfrecord_builder.downloading import sidecar

_TOLERANCE = 0.01  # of a size that may be known to three digits only
_MAY_DIFFER_LATER = (408, 429, 500, 502, 503, 504)


class TryLater(Exception):
    """An answer that may be another one after a pause."""


@dataclasses.dataclass(frozen=True)
class Body:
    """Which bytes of the file come: from `start` to before `end`, None where the server does not say."""

    start: int
    end: int | None


def read(
    response: requests.Response, address: str, offset: int, known: sidecar.Origin, about_bytes: int
) -> Body | None:
    """Gives which bytes come, or None if none is missing.

    Args:
      response: its head has arrived, its body has not been read.
      address: for messages.
      offset: bytes that are there, and with which the request asked to go on.
      known: what was said of the file before.
      about_bytes: size of the file, to a hundredth.

    Raises:
      TryLater: the server is busy.
      UserError: it refuses, it contradicts itself, or what it has is a page or of another size.
    """
    if response.status_code == 416 and offset:
        return _read_end(address, offset, known)
    if response.status_code == 206:
        body = Body(offset, _read_content_range(response, address, offset, known))
    elif response.status_code == 200:
        _check_type(response, address)
        length = response.headers.get("Content-Length", "")
        body = Body(0, int(length) if re.fullmatch("[0-9]+", length) else None)
    else:
        raise _refusal(response, address)
    _check_size(address, body.end, about_bytes)
    return body


def contradiction(address: str, got: str, expected: str) -> errors.UserError:
    """Gives the error for a server that does not do what it says."""
    return errors.UserError(
        f"{address}: the server sends {got}, expected {expected}; "
        "pass another --mirror, or remove the .incomplete file to start afresh."
    )


def most_bytes(end: int | None, about_bytes: int) -> int:
    """Gives how long the file can be at most."""
    return int(about_bytes * (1 + _TOLERANCE)) if end is None else end


def is_whole(num_bytes: int, end: int | None, about_bytes: int) -> bool:
    """True if so many bytes can be the whole file."""
    return num_bytes >= (about_bytes * (1 - _TOLERANCE) if end is None else end)


def _read_end(address: str, offset: int, known: sidecar.Origin) -> None:
    if known.num_bytes is not None and offset < known.num_bytes:
        raise contradiction(address, f"no byte after {offset:,}", f"{known.num_bytes:,} as it said before")


def _read_content_range(response: requests.Response, address: str, offset: int, known: sidecar.Origin) -> int:
    text = response.headers.get("Content-Range", "")
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", text.strip())
    start, last, total = map(int, found.groups()) if found else (-1, -1, -1)
    if start != offset or last != total - 1 or known.num_bytes not in (None, total):
        wanted = f"bytes {offset}-" + ("" if known.num_bytes is None else f" of {known.num_bytes}")
        raise contradiction(address, f"the Content-Range {text!r}", wanted)
    return total


def _refusal(response: requests.Response, address: str) -> Exception:
    text = f"the server answers {response.status_code} ({response.reason})"
    if response.status_code in _MAY_DIFFER_LATER:
        return TryLater(text)
    return errors.UserError(
        f"{address}: {text}, expected the archive; "
        "open the address in a browser to see why, or pass another --mirror."
    )


def _check_type(response: requests.Response, address: str) -> None:
    """A page to sign in at, say, must not overwrite half a corpus; it often has no length."""
    kind = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        raise errors.UserError(
            f"{address}: the server sends a page ({kind}), expected the archive; "
            "open the address in a browser to see what it says, or pass another --mirror."
        )


def _check_size(address: str, num_bytes: int | None, about_bytes: int) -> None:
    if num_bytes is not None and abs(num_bytes - about_bytes) > about_bytes * _TOLERANCE:
        raise errors.UserError(
            f"{address}: the server offers {num_bytes:,} bytes, expected about {about_bytes:,}; "
            "open the address in a browser to see what it is, or pass another --mirror."
        )
