"""What surrounds every request: metrics, the bearer token, and errors that are bugs."""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import Optional

from absl import logging
from starlette import datastructures
from starlette.types import ASGIApp, Receive, Scope, Send

from estimator_asr.server import api_errors, metrics

_UNKNOWN_ROUTE = "other"
_WITHOUT_TOKEN = ("/healthz", "/")
_PAGE = "/page/"  # asks for the token
# The page shows its own files alone, and no other page shows it.
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
}


class Measured:
    """Counts requests by route and status, and their time."""

    def __init__(self, app: ASGIApp, counters: metrics.Metrics):
        self._app, self._metrics = app, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, statuses = time.monotonic(), []

        async def send_and_count(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                for name, value in _HEADERS.items():
                    datastructures.MutableHeaders(scope=message).setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        finally:
            endpoint = getattr(scope.get("endpoint"), "__name__", _UNKNOWN_ROUTE).removeprefix("show_")
            status = statuses[0] if statuses else 499
            self._metrics.count_request(endpoint, status, time.monotonic() - started)


class Authorised:
    """Refuses requests without the bearer token."""

    def __init__(self, app: ASGIApp, token: Optional[str]):
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_allowed(scope):
            message = "authorization: bearer token is missing or wrong; send the token of --token_file"
            error = api_errors.ApiError(401, message, {"www-authenticate": "Bearer", "connection": "close"})
            return await api_errors.respond(scope["path"], error)(scope, receive, send)
        await self._app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        path = scope["path"]
        if self._token is None or path in _WITHOUT_TOKEN or path.startswith(_PAGE):
            return True
        given = datastructures.Headers(scope=scope).get("authorization", "")
        kind, _, token = given.partition(" ")
        is_same = hmac.compare_digest(token.strip().encode(), self._token.encode())
        return kind.lower() == "bearer" and is_same


class Guarded:
    """Logs errors that are bugs with their traceback, and answers what is cancelled when the server stops."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = []

        async def send_and_note(message):
            started.append(message["type"])
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except asyncio.CancelledError:
            if not started:
                await api_errors.respond(scope["path"], api_errors.stopping())(scope, receive, send)
        except Exception as error:  # Starlette has answered 500 by now
            logging.exception("%s %s: %s", scope["method"], scope["path"], type(error).__name__)
