"""Connections: at most so many, and none that stays open without a request.

uvicorn alone waits for the headers of a request for ever.
"""

from __future__ import annotations

import asyncio
import collections
import functools

from uvicorn.protocols.http import h11_impl

HEADER_SECONDS = 10.0


def limit(max_connections: int) -> type:
    """Returns the protocol class for uvicorn.

    A connection without a request is closed after HEADER_SECONDS, or earlier for a new connection when there
    are max_connections; if all have requests, the new one is closed.
    """
    return functools.partial(LimitedProtocol, idle=collections.OrderedDict(), max_connections=max_connections)


class LimitedProtocol(h11_impl.H11Protocol):
    """uvicorn's HTTP/1.1, for a limited number of connections."""

    def __init__(self, *arguments, idle: collections.OrderedDict, max_connections: int, **keywords):
        super().__init__(*arguments, **keywords)
        self._idle, self._max_connections, self._timer = idle, max_connections, None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._begin_idle()
        if len(self.connections) > self._max_connections:
            oldest = next((each for each in self._idle if each.is_idle()), self)
            oldest.abort()

    def connection_lost(self, exc) -> None:
        self._end_idle()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if not self.is_idle():
            self._end_idle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_idle() and not self.transport.is_closing():
            self._begin_idle()

    def is_idle(self) -> bool:
        """Returns whether no request is being read or answered."""
        return self.cycle is None or self.cycle.response_complete

    def abort(self) -> None:
        self._end_idle()
        self.connections.discard(self)
        self.transport.abort()

    def _begin_idle(self) -> None:
        self._end_idle()
        self._idle[self] = None
        self._timer = self.loop.call_later(HEADER_SECONDS, self.abort)

    def _end_idle(self) -> None:
        self._idle.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
