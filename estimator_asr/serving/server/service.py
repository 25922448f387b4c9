"""The parts that all APIs share: the served version, the queue, and the request body reader."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import TypeVar

from starlette import requests

from estimator_asr.decoding.hotwords import hotword_list
from estimator_asr.exporting.saved_model import statuses
from estimator_asr.serving.server import (
    api_errors,
    batching,
    limits,
    metrics,
    served_version,
    uploads,
    versions,
)

T = TypeVar("T")
_BODIES_AT_ONCE = 8  # memory for all request bodies, as a multiple of max_request_mb
# Limits on a request's hotwords, whose number and length determine the size of the graph's tables.
MAX_HOTWORD_CHARACTERS = 40_000  # total length of all hotwords
_MAX_HOTWORDS = 1000
_MAX_HOTWORD_LENGTH = 400  # maximum number of characters in a hotword with its pinyin; about 50 hanzi


class Service:
    """The parts of a running server."""

    def __init__(self, saved_model: str, settings: limits.Limits):
        """Loads the model; raises errors.UserError if there is no model, or if it is damaged."""
        self.limits, self.metrics = settings, metrics.Metrics()
        self.versions = versions.Versions(saved_model, self.metrics)
        self.bodies = BodyReader(int(settings.max_request_mb * 2**20), settings.max_body_seconds)
        self._tasks: list[asyncio.Future] = []

    async def start(self) -> None:
        """Starts the queue and the search for new versions, in the server's event loop."""
        self.decoder = uploads.UploadDecoder(self.limits.max_queue_seconds, self.limits.max_audio_seconds)
        self.batcher = batching.Batcher(self.limits, self.metrics, lambda: self.bodies.num_open)
        dictionary = asyncio.to_thread(hotword_list.read_words, ("词",), "")  # the first call takes a second
        self._tasks = [
            asyncio.ensure_future(job) for job in (self.batcher.run(), self.versions.watch(), dictionary)
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def recognise(
        self, request: requests.Request, batch: Sequence[served_version.QueuedUtterance]
    ) -> list[dict]:
        """Returns the outputs for each item; stops if the client disconnects. See Batcher.recognise."""
        results = await while_connected(request, self.batcher.recognise(batch))
        for result in results:
            self.metrics.utterances.labels(result.get("status", statuses.OK)).inc()
        return results


def check_hotwords(hotwords: Sequence[str]) -> None:
    """Raises api_errors.ApiError if a request's hotwords, including any pinyin, are too many or too long."""
    longest, total = max(map(len, hotwords), default=0), sum(map(len, hotwords))
    if len(hotwords) > _MAX_HOTWORDS:
        problem = f"the request has {len(hotwords)} hotwords, expected at most {_MAX_HOTWORDS}; send fewer"
    elif longest > _MAX_HOTWORD_LENGTH:
        size = f"{longest} characters including its pinyin"
        problem = f"a hotword has {size}, expected at most {_MAX_HOTWORD_LENGTH}; shorten the hotword"
    elif total > MAX_HOTWORD_CHARACTERS:
        size = f"{total} characters including their pinyin"
        problem = f"the hotwords have {size}, expected at most {MAX_HOTWORD_CHARACTERS}; send fewer"
    else:
        return
    raise api_errors.refuse(problem)


async def while_connected(request: requests.Request, work: Awaitable[T]) -> T:
    """Awaits `work`; if the client disconnects, cancels `work` and raises api_errors.ApiError."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(_wait_for_disconnect(request))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return tasks[0].result()
        raise api_errors.client_gone()
    finally:
        for task in tasks:
            task.cancel()


async def _wait_for_disconnect(request: requests.Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class BodyReader:
    """Reads request bodies; limits the size of each body, the total size, and the time that reading takes."""

    def __init__(self, max_bytes: int, max_seconds: float):
        self._max_bytes, self._max_seconds = max_bytes, max_seconds
        self.num_held = 0  # total size in bytes of the request bodies in memory
        self.num_open = 0  # number of request bodies that are being read or are in memory

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a request in num_open during the block, although its body is no longer needed."""
        self.num_open += 1
        try:
            yield
        finally:
            self.num_open -= 1

    @contextlib.asynccontextmanager
    async def read(self, request: requests.Request) -> AsyncIterator[bytearray]:
        """Yields the body, and counts it in num_open during the block; the block may clear a parsed body.

        Raises api_errors.ApiError if the body is too large or arrives too slowly, or if all bodies in memory
        together are too large.
        """
        declared = request.headers.get("content-length", "")
        if declared.isdecimal():
            self._check_size(int(declared[:18]))
        content, num_bytes = bytearray(), 0
        self.num_open += 1
        try:
            await self._receive(request, content)
            num_bytes = len(content)
            yield content
        finally:
            self.num_open -= 1
            self.num_held -= num_bytes or len(content)

    async def _receive(self, request: requests.Request, content: bytearray) -> None:
        try:
            await asyncio.wait_for(self._collect(request, content), self._max_seconds)
        except asyncio.TimeoutError:
            seconds = f"{self._max_seconds:g} s"
            message = f"the request body is still incomplete after {seconds}; send it faster, or send less"
            raise api_errors.ApiError(408, message, api_errors.CLOSE) from None
        except requests.ClientDisconnect:
            raise api_errors.client_gone() from None

    async def _collect(self, request: requests.Request, content: bytearray) -> None:
        most = _BODIES_AT_ONCE * self._max_bytes
        async for chunk in request.stream():
            self._check_size(len(content) + len(chunk))
            if self.num_held + len(chunk) > most:
                problem = f"it holds {self.num_held} bytes of requests (limit: {most})"
                raise api_errors.overloaded(problem, 1)
            self.num_held += len(chunk)
            content += chunk

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > self._max_bytes:
            message = f"the request has at least {num_bytes} bytes, expected at most {self._max_bytes}"
            raise api_errors.ApiError(413, f"{message}; send a smaller request", api_errors.CLOSE)
