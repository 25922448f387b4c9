"""Middleware for every request: request ids, metrics, logging, access checks, and unexpected exceptions.

Any web site can point its own host name at 127.0.0.1, so that its pages can read what this server sends to
the browser (DNS rebinding); the Host header still contains that site's name. Pages from other sites can also
send requests, although they cannot read the responses; browsers mark such requests with Sec-Fetch-Site, older
browsers with Origin.
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
from starlette.types import ASGIApp, Receive, Scope, Send

from estimator_asr.serving.server import api_errors, metrics

_UNKNOWN_ROUTE = "other"
_WITHOUT_TOKEN = ("/healthz", "/")
_WEBSOCKET, _SWITCHED = "WEBSOCKET", 101  # the method and the status recorded for a WebSocket request
_ANSWERS = ("http.response.start", "websocket.http.response.start", "websocket.accept")
_DENIED = "websocket.close"  # sent instead of websocket.accept if the path has no WebSocket route
_BEARER = "bearer."
_PAGE = "/page/"  # these paths need no token, because the page asks the user for it
_MAX_HEAD_BYTES = 1 << 14  # uvicorn limits the URL and headers only if they arrive in several pieces
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)  # client request ids that are safe to log
# The page may load only its own files, and other pages may not embed this page.
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
}


class Observed:
    """ASGI middleware that gives each request an id, checks and counts the request, and logs server errors.

    A request that is cancelled because the server stops also gets a response.
    """

    def __init__(
        self, app: ASGIApp, counters: metrics.Metrics, check: Callable[[Scope], None], max_open: int
    ):
        """`check` raises api_errors.ApiError to refuse a request; at most `max_open` requests may be open."""
        self._app, self._metrics, self._check, self._max_open = app, counters, check, max_open
        self._num_open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        began, statuses, request_id = time.monotonic(), [], _find_id(scope)

        async def send_and_note(message):
            if message["type"] in _ANSWERS:
                statuses.append(message.get("status", _SWITCHED))
                headers = datastructures.MutableHeaders(scope=message)
                for name, value in {**_HEADERS, "x-request-id": request_id}.items():
                    headers.setdefault(name, value)
            elif message["type"] == _DENIED and not statuses:
                statuses.append(403)
            await send(message)

        bug = await self._run(scope, receive, send_and_note, statuses)
        status = statuses[0] if statuses else 499
        route = getattr(scope.get("endpoint"), "__name__", _UNKNOWN_ROUTE).removeprefix("show_")
        self._metrics.count_request(route, status, time.monotonic() - began)
        if bug or status >= 500:
            path = scope["raw_path"].decode("ascii", "backslashreplace")  # the result has no line breaks
            message = "%s %s: status is %d, request id is %s"
            logging.error(message, _find_method(scope), path, status, request_id, exc_info=bug)

    async def _run(self, scope: Scope, receive: Receive, send: Send, statuses: list) -> Optional[Exception]:
        """Processes a request; returns any unexpected exception from the application."""
        self._num_open += 1
        try:
            await (self._refuse(scope) or self._app)(scope, receive, send)
        except asyncio.CancelledError:
            if not statuses:
                message = "the server stopped before the request was finished; send the request again"
                error = api_errors.ApiError(503, message, api_errors.CLOSE)
                await api_errors.respond(scope["path"], error)(scope, receive, send)
        except Exception as error:  # Starlette has already responded with status 500
            return error
        finally:
            self._num_open -= 1
        return None

    def _refuse(self, scope: Scope) -> Optional[ASGIApp]:
        try:
            if self._num_open > self._max_open:
                message = (
                    f"the server has more than {self._max_open} open requests; send the request again in 1 s"
                )
                raise api_errors.ApiError(503, message, {"retry-after": "1"})
            self._check(scope)
        except api_errors.ApiError as error:
            error.headers = {**error.headers, **api_errors.CLOSE}
            return api_errors.respond(scope["path"], error)
        return None


def check(token: Optional[str], hosts: Optional[tuple[str, ...]], scope: Scope) -> None:
    """Raises api_errors.ApiError if a request is not allowed; checks only the URL and the headers.

    The request must have the token, and its Host header must be one of `hosts`, with or without a port. If
    `token` or `hosts` is None, that check is skipped.
    """
    headers = datastructures.Headers(scope=scope)
    url = scope.get("raw_path", b"") + scope.get("query_string", b"")
    num_bytes = len(url) + sum(len(name) + len(value) for name, value in headers.raw)
    if num_bytes > _MAX_HEAD_BYTES:
        problem = f"the URL and headers have {num_bytes} bytes, expected at most {_MAX_HEAD_BYTES}"
        raise api_errors.refuse(f"{problem}; shorten them")
    if "content-length" in headers and "transfer-encoding" in headers:
        # A proxy might use one of these headers and this server the other (request smuggling).
        raise api_errors.refuse(
            "the request has both Content-Length and Transfer-Encoding; send only one of them"
        )
    host = headers.get("host", "")
    if hosts is not None and _without_port(host) not in hosts:
        raise api_errors.refuse(
            f"the Host header is {host[:80]!r}, expected one of {', '.join(hosts)}; open one of these "
            "addresses, or start the server with --token_file"
        )
    if _find_method(scope) not in ("GET", "HEAD") and not _is_own_page(headers):
        origin = headers.get("origin", "unknown")[:80]
        message = f"requests from pages of other sites ({origin!r}) are refused; use this server's own page"
        raise api_errors.ApiError(403, message)
    is_open = scope["path"] in _WITHOUT_TOKEN or scope["path"].startswith(_PAGE)
    if token is not None and not is_open and not _has_token(scope, headers, token):
        message = "the bearer token is missing or wrong; send the token from the server's --token_file"
        raise api_errors.ApiError(401, message, {"www-authenticate": "Bearer"})


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and not port.endswith("]") else host).lower()


def _is_own_page(headers: datastructures.Headers) -> bool:
    """Returns True if a request comes from this server's own page, or does not come from a web page."""
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] in ("same-origin", "none")
    return "origin" not in headers or headers["origin"].partition("://")[2] == headers.get("host", "")


def _has_token(scope: Scope, headers: datastructures.Headers, token: str) -> bool:
    """Returns True if the Authorization header or, for browsers' WebSockets, a subprotocol has the token."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    pairs = [(credentials.strip() if scheme.lower() == "bearer" else "", token)]
    pairs += [(subprotocol, f"{_BEARER}{encoded}") for subprotocol in scope.get("subprotocols", ())]
    return any(hmac.compare_digest(actual.encode(), expected.encode()) for actual, expected in pairs)


def _find_method(scope: Scope) -> str:
    return scope.get("method", _WEBSOCKET)


def _find_id(scope: Scope) -> str:
    request_id = datastructures.Headers(scope=scope).get("x-request-id", "")
    return request_id if _REQUEST_ID.fullmatch(request_id) else uuid.uuid4().hex
