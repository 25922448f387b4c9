"""Dynamic batching: items wait in a queue, and a worker recognises the first with others of similar length.

When the worker is free, a batch begins as soon as it is full, or no request comes for some milliseconds and
none is being read, or its oldest item has waited for the delay. Items whose client has gone are dropped. A
request that would make the queue longer than its limit is refused, with the time after which the queue has
room by the rate that was measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from absl import logging

from estimator_asr.server import api_errors, items, metrics, worker
from estimator_asr.serving import statuses
from tfrecord_builder import errors

_QUIET_SECONDS = 0.004  # clients that were answered at one time come again at one time
_FIRST_RATE = 10.0  # seconds of audio per second, before any is measured
_RATE_MEMORY = 0.8  # of the moving average
# The memory of attention: the square of the length for each item, with its padding.
_MAX_SQUARE_SECONDS = statuses.MAX_SECONDS**2


class Batcher:
    """The queue; `run` serves it until it is cancelled.

    Attributes:
        count_requests: returns how many requests are being read or recognised; those in the queue by default.
        rate: seconds of audio that are recognised per second, a moving average.
        queue_seconds: seconds of audio in the queue.
    """

    def __init__(
        self, max_batch_size: int, delay_seconds: float, max_queue_seconds: float, counters: metrics.Metrics
    ):
        self._max_batch_size, self._delay = max_batch_size, delay_seconds
        self._max_queue_seconds, self._metrics = max_queue_seconds, counters
        self._queue: list[items.Item] = []
        self._has_new = asyncio.Event()
        self._num_requests = 0
        self._worker = worker.Worker()
        self.rate = _FIRST_RATE
        counters.watch_queue(lambda: len(self._queue), lambda: self.queue_seconds)

        self.count_requests = lambda: self._num_requests

    @property
    def queue_seconds(self) -> float:
        return sum(item.seconds for item in self._queue)

    async def recognise(self, batch: Sequence[items.Item], is_urgent: bool = False) -> list[dict]:
        """Returns the outputs of each item; see served_version.ServedVersion.run.

        Cancelling it takes the items out of the queue. Urgent items go to its head, whatever its length.

        Raises:
            api_errors.ApiError: the queue is full.
            errors.UserError: the graph refuses an item.
        """
        if not is_urgent:
            self._check_room(sum(item.seconds for item in batch))
        self._queue[:] = sorted([*self._queue, *self._set_turns(batch, is_urgent)], key=_get_turn)
        self._num_requests += not is_urgent
        self._has_new.set()
        for item in batch:
            item.group.version.begin_use()
        try:
            return await asyncio.gather(*(item.result for item in batch))
        finally:
            self._num_requests -= not is_urgent
            gone = set(map(id, batch))
            self._queue[:] = [item for item in self._queue if id(item) not in gone]
            for item in batch:
                item.result.cancel()
                item.group.version.end_use()

    def _set_turns(self, batch: Sequence[items.Item], is_urgent: bool) -> Sequence[items.Item]:
        """The items of a long request follow each other as if spoken, so that short ones come in between."""
        waited = 0.0
        for item in batch:
            item.turn = float("-inf") if is_urgent else item.arrival + waited / self.rate
            waited += item.seconds
        return batch

    def _check_room(self, seconds: float) -> None:
        """One request is accepted at any length if the queue is empty: its size has a limit of its own."""
        waiting = self.queue_seconds
        if waiting and waiting + seconds > self._max_queue_seconds:
            excess = waiting + seconds - self._max_queue_seconds
            raise api_errors.overloaded(
                f"{waiting:.0f} s of audio wait, expected at most {self._max_queue_seconds:g} s",
                min(excess, waiting) / self.rate,
            )

    async def run(self) -> None:
        """Recognises what is in the queue, until it is cancelled."""
        while True:
            await self._has_new.wait()
            await self._wait_for_others()
            batch = self._take()
            if batch:
                await self._recognise(batch)

    async def _wait_for_others(self) -> None:
        while self._queue and len(self._queue) < self._max_batch_size:
            left = self._queue[0].arrival + self._delay - time.monotonic()
            if left <= 0:
                return
            self._has_new.clear()
            try:
                await asyncio.wait_for(self._has_new.wait(), min(left, _QUIET_SECONDS))
            except asyncio.TimeoutError:
                if self.count_requests() <= self._num_requests:
                    return

    def _take(self) -> list[items.Item]:
        """Takes the item whose turn it is and those of its group whose length is nearest to its own."""
        self._queue[:] = [item for item in self._queue if not item.result.done()]
        if not self._queue:
            self._has_new.clear()
            return []
        oldest = self._queue[0]
        others = [item for item in self._queue[1:] if item.group == oldest.group]
        batch = fill(
            [oldest],
            sorted(others, key=lambda item: abs(item.seconds - oldest.seconds)),
            self._max_batch_size,
        )
        taken = set(map(id, batch))
        self._queue[:] = [item for item in self._queue if id(item) not in taken]
        if self._queue:
            self._has_new.set()
        else:
            self._has_new.clear()
        return batch

    async def _recognise(self, batch: Sequence[items.Item]) -> None:
        version, signature, hotwords = batch[0].group
        started = time.monotonic()
        version.begin_use()  # also when its clients have gone
        try:
            rows = await self._worker.call(version.run, signature, hotwords, [item.row for item in batch])
        except Exception as error:
            return await self._blame(batch, error)
        finally:
            version.end_use()
        self._measure(batch, time.monotonic() - started)
        for item, row in zip(batch, rows):
            if not item.result.done():
                item.result.set_result(row)

    async def _blame(self, batch: Sequence[items.Item], error: Exception) -> None:
        """Recognises each item of a batch that failed alone, so that a bad one costs only itself."""
        if len(batch) > 1:
            for item in batch:
                if not item.result.done():
                    await self._recognise([item])
            return
        if not isinstance(error, errors.UserError):
            logging.error("%s: a batch has failed: %s", batch[0].group.version.version_dir, error)
        if not batch[0].result.done():
            batch[0].result.set_exception(error)

    def _measure(self, batch: Sequence[items.Item], seconds: float) -> None:
        audio_seconds = sum(item.seconds for item in batch)
        self.rate = _RATE_MEMORY * self.rate + (1 - _RATE_MEMORY) * audio_seconds / max(seconds, 1e-3)
        self._metrics.count_batch(len(batch), audio_seconds)


def _get_turn(item: items.Item) -> float:
    return item.turn


def fill(batch: list[items.Item], others: Sequence[items.Item], max_size: int) -> list[items.Item]:
    """Adds items to a batch in their order while its size and its memory allow."""
    longest = max(item.seconds for item in batch)
    for item in others:
        longest = max(longest, item.seconds)
        if len(batch) >= max_size or (len(batch) + 1) * longest**2 > _MAX_SQUARE_SECONDS:
            break
        batch.append(item)
    return batch
