"""What surrounds every request: its id, metrics, checks, and errors that are bugs."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Optional

from absl import logging
from starlette import datastructures
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from estimator_asr.server import api_errors, metrics

_UNKNOWN_ROUTE = "other"
_WITHOUT_TOKEN = ("/healthz", "/")
_PAGE = "/page/"  # asks for the token
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)  # of a client; it is written to the log
# The page shows its own files alone, and no other page shows it.
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
}


class Observed:
    """Assigns an id to each request, counts it by route and status, and logs it if its status is 500 or more.

    A request that is cancelled, because the server stops, gets a response.
    """

    def __init__(self, app: ASGIApp, counters: metrics.Metrics):
        self._app, self._metrics = app, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, statuses, request_id = time.monotonic(), [], _find_id(scope)

        async def send_and_note(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                _add_headers(message, request_id)
            await send(message)

        bug = await self._run(scope, receive, send_and_note, statuses)
        status = statuses[0] if statuses else 499
        self._metrics.count_request(_find_route(scope), status, time.monotonic() - began)
        if bug or status >= 500:
            path = scope["raw_path"].decode("ascii", "backslashreplace")  # without line breaks
            message = "%s %s: status is %d, request id is %s"
            logging.error(message, scope["method"], path, status, request_id, exc_info=bug)

    async def _run(self, scope: Scope, receive: Receive, send: Send, statuses: list) -> Optional[Exception]:
        """Returns the exception that is a bug."""
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not statuses:
                await api_errors.respond(scope["path"], api_errors.stopping())(scope, receive, send)
        except Exception as error:  # Starlette has answered 500 by now
            return error
        return None


class Checked:
    """Refuses requests by checks, which raise api_errors.ApiError."""

    def __init__(self, app: ASGIApp, checks: Sequence[Callable[[Scope], None]]):
        self._app, self._checks = app, checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        try:
            for check in self._checks if scope["type"] == "http" else ():
                check(scope)
        except api_errors.ApiError as error:
            app = api_errors.respond(scope["path"], error)
        await app(scope, receive, send)


def check_framing(scope: Scope) -> None:
    """Refuses a length beside chunks: a proxy may take the one and the server the other."""
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        message = "request: has a length and is chunked, expected one of them; send one of them"
        raise api_errors.ApiError(400, message, {"connection": "close"})


def check_token(token: Optional[str], scope: Scope) -> None:
    """Refuses requests without the bearer token."""
    path = scope["path"]
    if token is None or path in _WITHOUT_TOKEN or path.startswith(_PAGE):
        return
    kind, _, given = datastructures.Headers(scope=scope).get("authorization", "").partition(" ")
    is_same = hmac.compare_digest(given.strip().encode(), token.encode())
    if kind.lower() != "bearer" or not is_same:
        message = "authorization: bearer token is missing or wrong; send the token of --token_file"
        raise api_errors.ApiError(401, message, {"www-authenticate": "Bearer", "connection": "close"})


def _find_id(scope: Scope) -> str:
    given = datastructures.Headers(scope=scope).get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _find_route(scope: Scope) -> str:
    return getattr(scope.get("endpoint"), "__name__", _UNKNOWN_ROUTE).removeprefix("show_")


def _add_headers(message: Message, request_id: str) -> None:
    headers = datastructures.MutableHeaders(scope=message)
    for name, value in {**_HEADERS, "x-request-id": request_id}.items():
        headers.setdefault(name, value)
