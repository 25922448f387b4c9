"""Reads the bodies of requests within limits: bytes of one, bytes of all together, and time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette import requests

from estimator_asr.server import api_errors

_BODIES_AT_ONCE = 8  # of the largest size


class BodyReader:
    """Reads bodies; those that are held at once have a limit together.

    Attributes:
        num_open: bodies that are being read or held.
    """

    def __init__(self, max_bytes: int, max_seconds: float):
        self._max_bytes, self._max_seconds = max_bytes, max_seconds
        self._num_held = 0
        self.num_open = 0

    @contextlib.asynccontextmanager
    async def read(self, request: requests.Request) -> AsyncIterator[bytes]:
        """Yields the body, which counts as held until the block ends.

        Raises:
            api_errors.ApiError: it is too large or too slow, or too much is held already.
        """
        self._check_declared(request)
        chunks = []
        self.num_open += 1
        try:
            await asyncio.wait_for(self._collect(request, chunks), self._max_seconds)
            yield b"".join(chunks)
        except asyncio.TimeoutError:
            raise api_errors.too_slow(self._max_seconds) from None
        except requests.ClientDisconnect:
            raise api_errors.client_gone() from None
        finally:
            self.num_open -= 1
            self._num_held -= sum(map(len, chunks))

    def _check_declared(self, request: requests.Request) -> None:
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > self._max_bytes):
            raise api_errors.too_large("request", int(declared[:18]), self._max_bytes)

    async def _collect(self, request: requests.Request, chunks: list[bytes]) -> None:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > self._max_bytes:
                raise api_errors.too_large("request", size, self._max_bytes)
            if self._num_held + len(chunk) > _BODIES_AT_ONCE * self._max_bytes:
                raise api_errors.overloaded("too many large requests are read at once", 1)
            self._num_held += len(chunk)
            chunks.append(chunk)
