"""The sites that requests come from, and their Host header where only this machine reaches the server.

A web page of any site can name 127.0.0.1 in the DNS as a host of its own, and then read what the server
responds to the browser (DNS rebinding); the Host header still has the name of that site. A page can also send
requests whose responses it cannot read: browsers say so in Sec-Fetch-Site, older ones in Origin.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Optional

from absl import logging
from starlette import datastructures
from starlette.types import Scope

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


def warn_if_open(host: str, allowed: Optional[tuple[str, ...]], token: Optional[str]) -> None:
    """Logs that anybody can use the server; arguments and `allowed` are those of list_allowed."""
    if token is None and allowed is None:
        logging.warning(
            "--host=%s: every machine that reaches the server can use it; pass --token_file", host
        )


def check_host(allowed: Optional[tuple[str, ...]], scope: Scope) -> None:
    """Refuses requests to other hosts than those allowed, with or without a port."""
    host = datastructures.Headers(scope=scope).get("host", "")
    if allowed is not None and _without_port(host) not in allowed:
        raise api_errors.other_host(host, allowed)


def check_site(scope: Scope) -> None:
    """Refuses what the page of another site sends."""
    headers = datastructures.Headers(scope=scope)
    if scope["method"] not in ("GET", "HEAD") and not _is_own(headers):
        raise api_errors.other_site(headers.get("origin", "unknown"))


def _is_own(headers: datastructures.Headers) -> bool:
    """Returns whether a request comes from this server's page, or from no page."""
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] in ("same-origin", "none")
    return "origin" not in headers or headers["origin"].partition("://")[2] == headers.get("host", "")


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and not port.endswith("]") else host).lower()
