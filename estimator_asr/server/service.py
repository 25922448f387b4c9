"""What the APIs share: the version that is served, the queue, and the limits of a request."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from starlette import requests

from estimator_asr.hotwords import hotword_list
from estimator_asr.saved_model import statuses
from estimator_asr.server import api_errors, batching, bodies, decoding, items, metrics, versions, worker

T = TypeVar("T")
_PARSERS = 2  # threads


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of the server; sizes in bytes, times in seconds."""

    max_request_bytes: int = 32 << 20
    max_audio_seconds: float = 600.0
    max_queue_seconds: float = 600.0
    max_batch_size: int = 16
    batch_delay_seconds: float = 0.05
    body_seconds: float = 30.0


class Service:
    """The parts of a running server."""

    def __init__(self, saved_model: str, limits: Limits):
        """Loads the model.

        Raises:
            errors.UserError: there is none, or it is damaged.
        """
        self.limits, self.metrics = limits, metrics.Metrics()
        self.versions = versions.Versions(saved_model, self.metrics)
        self.bodies = bodies.BodyReader(limits.max_request_bytes, limits.body_seconds)
        self._tasks: list[asyncio.Future] = []

    async def start(self) -> None:
        """Starts the queue, and looks for versions; what belongs to an event loop is made in it."""
        limits = self.limits
        self.parsers = worker.Worker(_PARSERS)
        self.decoder = decoding.Decoder(limits.max_queue_seconds, limits.max_audio_seconds)
        self.batcher = batching.Batcher(
            limits.max_batch_size, limits.batch_delay_seconds, limits.max_queue_seconds, self.metrics
        )
        self.batcher.count_requests = lambda: self.bodies.num_open
        dictionary = self.parsers.call(hotword_list.read, ("词",), None)  # loads it, for a second
        running = self.batcher.run(), self.versions.watch(), dictionary
        self._tasks = [asyncio.ensure_future(each) for each in running]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def recognise(self, request: requests.Request, batch: Sequence[items.Item]) -> list[dict]:
        """Returns the outputs of each item, unless the client goes away; see batching.Batcher.recognise."""
        rows = await while_connected(request, self.batcher.recognise(batch))
        for row in rows:
            self.metrics.count_status(row["status"].decode() if "status" in row else statuses.OK)
        return rows


async def while_connected(request: requests.Request, work: Awaitable[T]) -> T:
    """Awaits work, which is cancelled if the client closes its connection."""
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
