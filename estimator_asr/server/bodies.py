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
    async def read(self, request: requests.Request) -> AsyncIterator[bytearray]:
        """Yields the body, which counts as held until the block ends; who has parsed it may clear it.

        Raises:
            api_errors.ApiError: it is too large or too slow, or too much is held already.
        """
        self._check_declared(request)
        content, num_bytes = bytearray(), 0
        self.num_open += 1
        try:
            await self._receive(request, content)
            num_bytes = len(content)
            yield content
        finally:
            self.num_open -= 1
            self._num_held -= num_bytes or len(content)

    def _check_declared(self, request: requests.Request) -> None:
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > self._max_bytes):
            raise api_errors.too_large("request", int(declared[:18]), self._max_bytes)

    async def _receive(self, request: requests.Request, content: bytearray) -> None:
        try:
            await asyncio.wait_for(self._collect(request, content), self._max_seconds)
        except asyncio.TimeoutError:
            raise api_errors.too_slow(self._max_seconds) from None
        except requests.ClientDisconnect:
            raise api_errors.client_gone() from None

    async def _collect(self, request: requests.Request, content: bytearray) -> None:
        async for chunk in request.stream():
            size = len(content) + len(chunk)
            if size > self._max_bytes:
                raise api_errors.too_large("request", size, self._max_bytes)
            if self._num_held + len(chunk) > _BODIES_AT_ONCE * self._max_bytes:
                most = _BODIES_AT_ONCE * self._max_bytes
                raise api_errors.overloaded(
                    f"{self._num_held} bytes of requests are held, expected at most {most}", 1
                )
            self._num_held += len(chunk)
            content += chunk
