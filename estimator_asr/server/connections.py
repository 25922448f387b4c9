"""Connections: at most so many, and none that keeps the server waiting for ever.

uvicorn alone waits for headers for ever, and for clients that do not read their response. bodies.py has the
deadline of bodies.
"""

from __future__ import annotations

import asyncio
import functools
import time
from typing import Optional

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http import h11_impl

from estimator_asr.server import api_errors, metrics, middleware

HEADER_SECONDS = 10.0  # from the connection or the former response to the end of the headers
WRITE_SECONDS = 30.0  # until the client has read what was written
_IDLE, _READING, _BUSY, _WRITING = "idle", "reading", "busy", "writing"
_LEAST_RATE = 1 << 14  # bytes per second of a body; one that is faster never gives way


def limit(max_connections: int, counters: metrics.Metrics) -> functools.partial:
    """Returns what makes the protocols of uvicorn.

    When there are max_connections, a new one closes the one that keeps the server waiting longest: without a
    request, with a slow body, or with a response that its client does not read. If none does, the new one is
    answered with 503.
    """
    return functools.partial(LimitedProtocol, pool=set(), max_connections=max_connections, counters=counters)


class LimitedProtocol(h11_impl.H11Protocol):
    """uvicorn's HTTP/1.1, for a limited number of connections."""

    def __init__(self, *arguments, pool: set, max_connections: int, counters: metrics.Metrics, **keywords):
        super().__init__(*arguments, **keywords)
        self._pool, self._max_connections, self._metrics = pool, max_connections, counters
        self._state, self._since, self._num_bytes = "", 0.0, 0
        self._timer: Optional[asyncio.TimerHandle] = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=0)  # pause_writing: the client has not read all
        super().connection_made(transport)
        self._update()
        if len(self._pool) < self._max_connections:
            self._pool.add(self)
        else:
            self.loop.call_soon(self._queue_for_room)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._num_bytes += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        self._update()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._update()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._update()

    def measure_delay(self) -> float:
        """Returns the seconds for which it is waited: for headers, a body faster than this, or a reader."""
        if self._state == _BUSY:
            return 0.0
        received = self._num_bytes / _LEAST_RATE if self._state == _READING else 0.0
        return time.monotonic() - self._since - received

    def _queue_for_room(self) -> None:
        """Waits until the requests of others, which may have come at the same moment, have been read."""
        self.flow.pause_reading()
        self.loop.call_soon(self._enter)

    def _enter(self) -> None:
        if self.transport.is_closing():
            return
        self._make_room()
        self._pool.add(self)
        self.flow.resume_reading()

    def _make_room(self) -> None:
        while len(self._pool) >= self._max_connections:
            slowest = max(self._pool, key=LimitedProtocol.measure_delay)
            if slowest.measure_delay() <= 0:
                refuse = functools.partial(_refuse, self._max_connections)
                self.app = middleware.Observed(refuse, self._metrics)
                return
            self._metrics.count_eviction()
            slowest.abort()

    def abort(self) -> None:
        self._leave()
        self.connections.discard(self)
        self.transport.abort()

    def _leave(self) -> None:
        self._pool.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _update(self) -> None:
        """Notes what is waited for since when, and starts its deadline."""
        state = self._find_state()
        if state == self._state:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._state, self._since = state, time.monotonic()
        self._num_bytes = self._num_bytes if state == _READING else 0
        seconds = {_IDLE: HEADER_SECONDS, _WRITING: WRITE_SECONDS}.get(state)
        self._timer = self.loop.call_later(seconds, self.abort) if seconds else None

    def _find_state(self) -> str:
        if self.flow.write_paused:
            return _WRITING
        if self.cycle is None or self.cycle.response_complete:
            return _IDLE
        return _READING if self.cycle.more_body else _BUSY


async def _refuse(max_connections: int, scope: Scope, receive: Receive, send: Send) -> None:
    error = api_errors.too_many_connections(max_connections)
    await api_errors.respond(scope["path"], error)(scope, receive, send)
