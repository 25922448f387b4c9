"""Runs the server on a socket until a signal ends it."""

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

from estimator_asr.server import service
from tfrecord_builder import errors

_BACKLOG = 1024
_MAX_MESSAGE_BYTES = 1 << 20  # above the limit of live_messages.py, which answers with a sentence
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address; port 0 is any free one.

    Raises:
        errors.UserError: the address is taken, or does not belong to this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except ValueError as error:  # a label that is empty or has more than 63 characters
        raise errors.UserError(f"--host: is {host[:80]!r}, expected a name or an address; fix it") from error
    except OSError as error:
        advice = "pass another --port" if error.errno == errno.EADDRINUSE else "pass another --host or --port"
        raise errors.UserError(f"{host[:80]}:{port}: cannot be bound ({error.strerror}); {advice}") from error
    return bound


def list_local_hosts(host: str, bound: socket.socket) -> Optional[tuple[str, ...]]:
    """Returns the names of this machine, if no other one reaches a socket that is bound to `host`."""
    if not ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback:
        return None
    return tuple(dict.fromkeys((*_LOCAL_HOSTS, f"[{host}]" if ":" in host else host.lower())))


class _WebSocket(websockets_sansio_impl.WebSocketsSansIOProtocol):
    """uvicorn's, which leaves a client without an answer whose upgrade the package websockets refuses."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        problem = self.conn.handshake_exc
        if problem and not self.transport.is_closing():
            message = f"request: opens no WebSocket ({problem}); send shorter headers, and no body\n"
            self.transport.write(self.conn.reject(400, message).serialize())
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn; middleware.py limits open requests and their headers."""

    def __init__(self, app: ASGIApp, limits: service.Limits, on_ready: Callable[[], object]):
        config = uvicorn.Config(
            app,
            http="h11",
            ws=_WebSocket,
            ws_max_size=_MAX_MESSAGE_BYTES,
            ws_ping_interval=None,  # live_api.py ends what is silent; a pong may wait behind audio
            ws_per_message_deflate=False,  # a small message may become a large one
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=limits.idle_seconds,
            timeout_graceful_shutdown=max(1, round(limits.stop_seconds)),
        )
        super().__init__(config)
        # uvicorn logs a traceback for text that is not UTF-8, and closes the stream with 1007.
        logging.getLogger("uvicorn.error").addFilter(
            lambda record: not isinstance((record.exc_info or (None, None))[1], UnicodeDecodeError)
        )
        self._on_ready = on_ready

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        if self.started:  # older releases of uvicorn return from a start that has failed
            self._on_ready()


def run(
    app: ASGIApp, bound: socket.socket, limits: service.Limits, on_ready: Callable[[str], object]
) -> None:
    """Serves on a socket from `bind` until SIGTERM or SIGINT; requests that are open then have stop_seconds.

    `on_ready` is called with the URL once connections are accepted.
    """
    host, port = bound.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    for each in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises what has stopped it again, for this handler
        signal.signal(each, lambda *_: None)
    Server(app, limits, lambda: on_ready(url)).run(sockets=[bound])
