"""Errors that a request is answered with, and their JSON in the form of each API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Optional

from starlette import responses

CLOSE = {"connection": "close"}  # the rest of the body is not read
_OPENAI_PATHS, _TENSORFLOW_PATHS = "/v1/", "/v1/models/"
OVERLOADED = 429
FAILED = "server: has failed; its log has the details"
_CLIENT_GONE = 499  # nginx's status for it


class ApiError(Exception):
    """A request that is refused with a status of HTTP and a sentence; `field` is that of a form."""

    def __init__(
        self, status: int, message: str, headers: Optional[Mapping] = None, field: Optional[str] = None
    ):
        super().__init__(message)
        self.status, self.message, self.headers, self.field = status, message, dict(headers or ()), field


def refuse(message: str, field: Optional[str] = None) -> ApiError:
    """Returns the error of a request that is wrong."""
    return ApiError(400, message, field=field)


def client_gone() -> ApiError:
    """Returns the error of a request whose client has closed the connection; nobody reads the response."""
    return ApiError(_CLIENT_GONE, "request: its client has closed the connection", CLOSE)


def overloaded(what: str, seconds: float) -> ApiError:
    """Returns the error of a request that is welcome again after some seconds, at least one."""
    wait = str(max(1, math.ceil(seconds)))
    return ApiError(OVERLOADED, f"server: {what}; send the request again in {wait} s", {"retry-after": wait})


def respond(path: str, error: ApiError) -> responses.JSONResponse:
    """Returns the response for an error, in the form of the API that the path belongs to."""
    message = error.message.encode("utf-8", "backslashreplace").decode("utf-8")  # JSON has lone surrogates
    content = {"error": message}
    if path.startswith(_OPENAI_PATHS) and not path.startswith(_TENSORFLOW_PATHS):
        content = {"error": {"message": message, "type": _type(error), "param": error.field, "code": None}}
    return responses.JSONResponse(content, error.status, error.headers)


def _type(error: ApiError) -> str:
    if error.status == OVERLOADED:
        return "rate_limit_error"
    return "invalid_request_error" if error.status < 500 else "server_error"
