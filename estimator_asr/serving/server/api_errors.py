"""Errors that the server sends to clients, as JSON in the format of each API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Optional

from starlette import responses

CLOSE = {"connection": "close"}  # the rest of the body is not read, so the connection cannot be reused
_OPENAI_PATHS, _TENSORFLOW_PATHS = "/v1/", "/v1/models/"
OVERLOADED = 429
FAILED = "the server failed; see its log for details"
_CLIENT_GONE = 499  # nginx's status for a connection that the client has closed


class ApiError(Exception):
    """An error response: HTTP status and message; `field` is the name of the invalid form field, if any."""

    def __init__(
        self, status: int, message: str, headers: Optional[Mapping] = None, field: Optional[str] = None
    ):
        super().__init__(message)
        self.status, self.message, self.headers, self.field = status, message, dict(headers or ()), field


def refuse(message: str, field: Optional[str] = None) -> ApiError:
    """Returns the error for an invalid request, with status 400."""
    return ApiError(400, message, field=field)


def client_gone() -> ApiError:
    """Returns the error for a request whose client has closed the connection; only metrics record it."""
    return ApiError(_CLIENT_GONE, "the client has closed the connection", CLOSE)


def overloaded(what: str, seconds: float) -> ApiError:
    """Returns the error for a busy server; clients may retry after `seconds`, rounded up to at least 1 s."""
    wait = str(max(1, math.ceil(seconds)))
    message = f"the server is busy: {what}; send the request again in {wait} s"
    return ApiError(OVERLOADED, message, {"retry-after": wait})


def respond(path: str, error: ApiError) -> responses.JSONResponse:
    """Returns the response for an error, in the format of the API to which the path belongs."""
    # Messages may quote lone surrogates from JSON, which UTF-8 cannot encode.
    message = error.message.encode("utf-8", "backslashreplace").decode("utf-8")
    content = {"error": message}
    if path.startswith(_OPENAI_PATHS) and not path.startswith(_TENSORFLOW_PATHS):
        content = {"error": {"message": message, "type": _type(error), "param": error.field, "code": None}}
    return responses.JSONResponse(content, error.status, error.headers)


def _type(error: ApiError) -> str:
    if error.status == OVERLOADED:
        return "rate_limit_error"
    return "invalid_request_error" if error.status < 500 else "server_error"
