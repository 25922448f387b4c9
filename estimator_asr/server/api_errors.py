"""Errors that a request is answered with, and their JSON in the form of each API."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Optional

from starlette import responses

_OPENAI_PATHS = ("/v1/audio/", "/v1/models")
_TENSORFLOW_PATHS = ("/v1/models/",)
_CLIENT_GONE = 499  # nginx's status for it
_CLOSE = {"connection": "close"}  # the rest of the body is not read


class ApiError(Exception):
    """A request that is refused with a status of HTTP and a sentence."""

    def __init__(self, status: int, message: str, headers: Iterable = (), field: Optional[str] = None):
        super().__init__(message)
        self.status, self.message, self.headers, self.field = status, message, dict(headers or ()), field


def refuse(message: str, field: Optional[str] = None) -> ApiError:
    """Returns the error of a request that is wrong; `field` is that of a form."""
    return ApiError(400, message, field=field)


def too_large(what: str, num_bytes: int, max_bytes: int) -> ApiError:
    message = f"{what}: has {num_bytes} bytes or more, expected at most {max_bytes}; send less at once"
    return ApiError(413, message, _CLOSE)


def too_slow(seconds: float) -> ApiError:
    message = f"request: body is incomplete after {seconds:g} s, expected all of it; send it faster, or less"
    return ApiError(408, message, _CLOSE)


def client_gone() -> ApiError:
    """Returns the error of a request whose client has closed the connection; nobody reads the response."""
    return ApiError(_CLIENT_GONE, "request: its client has closed the connection", _CLOSE)


def overloaded(what: str, seconds: float) -> ApiError:
    """Returns the error of a request that is welcome again after some seconds, at least one."""
    wait = max(1, math.ceil(seconds))
    return ApiError(429, f"server: {what}; send the request again in {wait} s", {"retry-after": str(wait)})


def too_many_connections(max_connections: int) -> ApiError:
    message = f"server: has more connections than {max_connections}; send the request again in 1 s"
    return ApiError(503, message, {"retry-after": "1", **_CLOSE})


def other_host(host: str, allowed: Sequence[str]) -> ApiError:
    """Returns the error of a request to another host; see hosts.py."""
    message = (
        f"host: is {host[:80]!r}, expected one of {', '.join(allowed)}; open that address, "
        "or start the server with --token_file"
    )
    return ApiError(400, message, _CLOSE)


def other_site(origin: str) -> ApiError:
    """Returns the error of a request that a page of another site has sent."""
    message = (
        f"origin: is {origin[:80]!r}, expected this server's own page or no browser; open this server's page"
    )
    return ApiError(403, message, _CLOSE)


def stopping() -> ApiError:
    return ApiError(503, "server: stops before the request is done; send it again", _CLOSE)


def respond(path: str, error: ApiError) -> responses.JSONResponse:
    """Returns the response for an error, in the form of the API that the path belongs to."""
    message = error.message.encode("utf-8", "backslashreplace").decode("utf-8")  # JSON has lone surrogates
    content = {"error": message}
    if path.startswith(_OPENAI_PATHS) and not path.startswith(_TENSORFLOW_PATHS):
        content = {"error": {"message": message, "type": _type(error), "param": error.field, "code": None}}
    return responses.JSONResponse(content, error.status, error.headers)


def _type(error: ApiError) -> str:
    if error.status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if error.status < 500 else "server_error"
