"""Runs the server on a socket until a signal ends it."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from estimator_asr.server import connections, metrics
from tfrecord_builder import errors

_BACKLOG = 1024


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


def run(config: uvicorn.Config, bound: socket.socket, on_ready: Callable) -> None:
    """Serves until SIGTERM or SIGINT, and then what has been accepted.

    Args:
        config: from `make_config`.
        bound: from `bind`.
        on_ready: is called with the URL once connections are accepted.
    """
    with _without_death_by_signal():
        _Server(config, lambda: on_ready(_url(bound))).run(sockets=[bound])


def make_config(
    app: ASGIApp, counters: metrics.Metrics, max_connections: int, stop_seconds: float
) -> uvicorn.Config:
    """Returns the settings of uvicorn.

    Args:
        app: the application.
        counters: its metrics.
        max_connections: open at one time.
        stop_seconds: for the requests that are open when the server is stopped.
    """
    return uvicorn.Config(
        app,
        http=connections.limit(max_connections, counters),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=max(1, round(stop_seconds)),
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable):
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        self._on_ready()


@contextlib.contextmanager
def _without_death_by_signal():
    """uvicorn raises the signal that has stopped it again, once it has restored the handlers."""
    former = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
