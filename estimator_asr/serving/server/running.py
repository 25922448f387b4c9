"""Runs the server on a socket until a signal stops it."""

from __future__ import annotations

import errno
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable
from typing import Optional

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.websockets import websockets_sansio_impl

from estimator_asr.serving.server import limits
from tfrecord_builder import errors

_BACKLOG = 1024
_MAX_MESSAGE_BYTES = 1 << 20  # live_messages.py has a lower limit, whose error message clients should see
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket bound to the address; if `port` is 0, any free port is used.

    Raises errors.UserError if the address is in use, or does not belong to this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except ValueError as error:  # part of the host name is empty or longer than 63 characters
        raise errors.UserError(f"--host is {host[:80]!r}, expected a host name or IP address") from error
    except OSError as error:
        advice = "pass another --port" if error.errno == errno.EADDRINUSE else "pass another --host or --port"
        raise errors.UserError(f"cannot listen on {host[:80]}:{port} ({error.strerror}); {advice}") from error
    return bound


def list_local_hosts(host: str, bound: socket.socket) -> Optional[tuple[str, ...]]:
    """Returns this machine's names if no other machine can reach the bound socket, otherwise None."""
    if not ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback:
        return None
    return tuple(dict.fromkeys((*_LOCAL_HOSTS, f"[{host}]" if ":" in host else host.lower())))


class _WebSocket(websockets_sansio_impl.WebSocketsSansIOProtocol):
    """A WebSocket protocol that also responds to upgrade requests that the websockets package refuses."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        problem = self.conn.handshake_exc
        if problem and not self.transport.is_closing():
            message = f"the request does not open a WebSocket ({problem}); send shorter headers and no body\n"
            self.transport.write(self.conn.reject(400, message).serialize())
            self.transport.close()


class Server(uvicorn.Server):
    """A uvicorn server with this project's settings; middleware.py limits open requests and header sizes."""

    def __init__(self, app: ASGIApp, settings: limits.Limits, on_ready: Callable[[], object]):
        config = uvicorn.Config(
            app,
            http="h11",
            ws=_WebSocket,
            ws_max_size=_MAX_MESSAGE_BYTES,
            ws_ping_interval=None,  # live_api.py has its own timeouts; audio may delay a pong
            ws_per_message_deflate=False,  # a small compressed message could expand to a huge one
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=settings.idle_seconds,
            timeout_graceful_shutdown=max(1, round(settings.stop_seconds)),
        )
        super().__init__(config)
        # Hides the traceback when uvicorn closes a stream (code 1007) because a message is not UTF-8 text.
        logging.getLogger("uvicorn.error").addFilter(
            lambda record: not isinstance((record.exc_info or (None, None))[1], UnicodeDecodeError)
        )
        self._on_ready = on_ready

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        if self.started:  # older releases of uvicorn return even if startup has failed
            self._on_ready()


def run(
    app: ASGIApp, bound: socket.socket, settings: limits.Limits, on_ready: Callable[[str], object]
) -> None:
    """Serves on a socket from `bind` until SIGTERM or SIGINT, then gives open requests stop_seconds to end.

    `on_ready` is called with the URL as soon as connections are accepted.
    """
    host, port = bound.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises the signals again after it has stopped
        signal.signal(number, lambda *_: None)
    Server(app, settings, lambda: on_ready(url)).run(sockets=[bound])
