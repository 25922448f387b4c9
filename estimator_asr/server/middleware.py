"""What surrounds every request: its id, metrics, log, checks, and errors that are bugs.

A web page of any site can name 127.0.0.1 in the DNS as a host of its own, and then read what the server
responds to the browser (DNS rebinding); the Host header still has the name of that site. A page can also send
requests whose responses it cannot read: browsers say so in Sec-Fetch-Site, older ones in Origin.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
import time
import uuid
from collections.abc import Callable
from typing import Optional

from absl import logging
from starlette import datastructures
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from estimator_asr.server import api_errors, metrics

_UNKNOWN_ROUTE = "other"
_WITHOUT_TOKEN = ("/healthz", "/")
_WEBSOCKET, _SWITCHED = "WEBSOCKET", 101  # its method for checks and the log, its status
_ANSWERS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
_DENIED = "websocket.close"  # before it is accepted: of a path that is none
_BEARER = "bearer."
_PAGE = "/page/"  # asks for the token
_MAX_HEAD_BYTES = 1 << 14  # uvicorn limits only what arrives in pieces
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)  # of a client; it is written to the log
# The page shows its own files alone, and no other page shows it.
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
}


class Observed:
    """Assigns an id to each request, checks it, counts it by route and status, and logs statuses from 500.

    A request that is cancelled, because the server stops, gets a response.
    """

    def __init__(
        self, app: ASGIApp, counters: metrics.Metrics, check: Callable[[Scope], None], max_open: int
    ):
        """`check` refuses requests by raising api_errors.ApiError, as does more than `max_open` at a time."""
        self._app, self._metrics, self._check, self._max_open = app, counters, check, max_open
        self._num_open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        began, statuses, request_id = time.monotonic(), [], _find_id(scope)

        async def send_and_note(message):
            if message["type"] in _ANSWERS:
                statuses.append(message.get("status", _SWITCHED))
                _add_headers(message, request_id)
            elif message["type"] == _DENIED and not statuses:
                statuses.append(403)
            await send(message)

        bug = await self._run(scope, receive, send_and_note, statuses)
        status = statuses[0] if statuses else 499
        self._metrics.count_request(_find_route(scope), status, time.monotonic() - began)
        if bug or status >= 500:
            path = scope["raw_path"].decode("ascii", "backslashreplace")  # without line breaks
            message = "%s %s: status is %d, request id is %s"
            logging.error(message, _find_method(scope), path, status, request_id, exc_info=bug)

    async def _run(self, scope: Scope, receive: Receive, send: Send, statuses: list) -> Optional[Exception]:
        """Returns the exception that is a bug."""
        self._num_open += 1
        try:
            await (self._refuse(scope) or self._app)(scope, receive, send)
        except asyncio.CancelledError:
            if not statuses:
                message = "server: stops before the request is done; send it again"
                error = api_errors.ApiError(503, message, api_errors.CLOSE)
                await api_errors.respond(scope["path"], error)(scope, receive, send)
        except Exception as error:  # Starlette has answered 500 by now
            return error
        finally:
            self._num_open -= 1
        return None

    def _refuse(self, scope: Scope) -> Optional[ASGIApp]:
        try:
            if self._num_open > self._max_open:
                message = (
                    f"server: has more open requests than {self._max_open}; send the request again in 1 s"
                )
                raise api_errors.ApiError(503, message, {"retry-after": "1"})
            self._check(scope)
        except api_errors.ApiError as error:
            error.headers = {**error.headers, **api_errors.CLOSE}
            return api_errors.respond(scope["path"], error)
        return None


def check(token: Optional[str], hosts: Optional[tuple[str, ...]], scope: Scope) -> None:
    """Raises api_errors.ApiError for a request that is not for this server, before it is read.

    It must have the token, and its Host header one of the hosts, with or without a port; None: anything.
    """
    headers = datastructures.Headers(scope=scope)
    url = scope.get("raw_path", b"") + scope.get("query_string", b"")
    num_bytes = len(url) + sum(len(name) + len(value) for name, value in headers.raw)
    if num_bytes > _MAX_HEAD_BYTES:
        problem = f"its URL and headers have {num_bytes} bytes, expected at most {_MAX_HEAD_BYTES}"
        raise api_errors.refuse(f"request: {problem}; send smaller ones")
    if "content-length" in headers and "transfer-encoding" in headers:
        # A proxy may take the one and the server the other.
        raise api_errors.refuse(
            "request: has a length and is chunked, expected one of them; send one of them"
        )
    host = headers.get("host", "")
    if hosts is not None and _without_port(host) not in hosts:
        raise api_errors.refuse(
            f"host: is {host[:80]!r}, expected one of {', '.join(hosts)}; open that address, "
            "or start the server with --token_file"
        )
    if _find_method(scope) not in ("GET", "HEAD") and not _is_own_page(headers):
        origin = headers.get("origin", "unknown")[:80]
        expected = "expected this server's own page or no browser; open this server's page"
        raise api_errors.ApiError(403, f"origin: is {origin!r}, {expected}")
    is_open = scope["path"] in _WITHOUT_TOKEN or scope["path"].startswith(_PAGE)
    if token is not None and not is_open and not _has_token(scope, headers, token):
        message = "authorization: bearer token is missing or wrong; send the token of --token_file"
        raise api_errors.ApiError(401, message, {"www-authenticate": "Bearer"})


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and not port.endswith("]") else host).lower()


def _is_own_page(headers: datastructures.Headers) -> bool:
    """Returns whether a request comes from this server's page, or from no page."""
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] in ("same-origin", "none")
    return "origin" not in headers or headers["origin"].partition("://")[2] == headers.get("host", "")


def _has_token(scope: Scope, headers: datastructures.Headers, token: str) -> bool:
    """Browsers send no header with a WebSocket: there it is a subprotocol too, in base64url."""
    kind, _, word = headers.get("authorization", "").partition(" ")
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    expected = [(word.strip() if kind.lower() == "bearer" else "", token)]
    expected += [(each, f"{_BEARER}{encoded}") for each in scope.get("subprotocols", ())]
    return any(hmac.compare_digest(got.encode(), want.encode()) for got, want in expected)


def _find_method(scope: Scope) -> str:
    return scope.get("method", _WEBSOCKET)


def _find_id(scope: Scope) -> str:
    request_id = datastructures.Headers(scope=scope).get("x-request-id", "")
    return request_id if _REQUEST_ID.fullmatch(request_id) else uuid.uuid4().hex


def _find_route(scope: Scope) -> str:
    return getattr(scope.get("endpoint"), "__name__", _UNKNOWN_ROUTE).removeprefix("show_")


def _add_headers(message: Message, request_id: str) -> None:
    headers = datastructures.MutableHeaders(scope=message)
    for name, value in {**_HEADERS, "x-request-id": request_id}.items():
        headers.setdefault(name, value)
