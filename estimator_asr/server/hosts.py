"""The Host header of requests to a server that only this machine reaches, and that asks for no token.

A web page of any site can name 127.0.0.1 in the DNS as a host of its own, and then read what the server
responds to the browser (DNS rebinding); the Host header still has the name of that site.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Optional

from starlette import datastructures
from starlette.types import ASGIApp, Receive, Scope, Send

from estimator_asr.server import api_errors

_LOCAL = ("localhost", "127.0.0.1", "[::1]")


def list_allowed(host: str, bound: socket.socket, token: Optional[str]) -> Optional[tuple[str, ...]]:
    """Returns the hosts that requests may name; None for any: other machines reach it, or it has a token.

    Args:
        host: that the socket was bound to by, as the user wrote it.
        bound: the socket.
        token: the bearer token.
    """
    address = ipaddress.ip_address(bound.getsockname()[0].partition("%")[0])
    if token is not None or not address.is_loopback:
        return None
    return tuple(dict.fromkeys((*_LOCAL, f"[{host}]" if ":" in host else host.lower())))


class Trusted:
    """Refuses requests to other hosts than those allowed, with or without a port."""

    def __init__(self, app: ASGIApp, allowed: Optional[tuple[str, ...]]):
        self._app, self._allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._allowed is not None:
            host = datastructures.Headers(scope=scope).get("host", "")
            if _without_port(host) not in self._allowed:
                error = api_errors.other_host(host, self._allowed)
                return await api_errors.respond(scope["path"], error)(scope, receive, send)
        await self._app(scope, receive, send)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and not port.endswith("]") else host).lower()
