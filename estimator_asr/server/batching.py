"""Dynamic batching: items wait in a queue, and a worker recognises the first with others of similar length.

While no batch is recognised, one begins as soon as it is full, or no request comes for some milliseconds and
none is being read, or its oldest item has waited for the delay. If there are enough items, a full batch is
two halves in two threads, so that one is recognised while the clients of the other are answered and come
again. Items whose client has gone are dropped. A request that would make the queue longer than its limit is
refused, with the time after which the queue has room by the rate that was measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from absl import logging

from estimator_asr.server import item_queue, items, metrics, worker
from tfrecord_builder import errors

_NUM_THREADS = 2
_LEAST_HALF = 8  # items; smaller batches take almost as long as one of twice their size
_QUIET_SECONDS = 0.004  # clients that were answered at one time come again at one time
_FIRST_RATE = 10.0  # seconds of audio per second, before any is measured
_RATE_MEMORY = 0.8  # of the moving average
_PATIENCE = 4.0  # times that a batch may take what its audio takes at the measured rate
_LEAST_PATIENCE_SECONDS = 3.0
_LINEAR_SECONDS = 20.0  # the time of a longer item grows with the square of its length, as attention


class Batcher:
    """The queue; `run` serves it until it is cancelled.

    Attributes:
        count_requests: returns how many requests are being read or recognised; those in the queue by default.
        rate: seconds of audio that are recognised per second, a moving average.
    """

    def __init__(
        self, max_batch_size: int, delay_seconds: float, max_queue_seconds: float, counters: metrics.Metrics
    ):
        self._max_batch_size, self._delay, self._metrics = max_batch_size, delay_seconds, counters
        self._queue = item_queue.ItemQueue(max_queue_seconds)
        self._has_new = asyncio.Event()
        self._num_requests = 0
        self._half = max_batch_size // 2 if max_batch_size >= 2 * _LEAST_HALF else None
        self._worker = worker.Worker(_NUM_THREADS)
        self._tasks: dict[asyncio.Task, float] = {}  # of running batches, with the time when patience ends
        self.rate = _FIRST_RATE
        counters.watch_queue(lambda: len(self._queue.items), lambda: self._queue.seconds)

        self.count_requests = lambda: self._num_requests

    @property
    def is_busy(self) -> bool:
        """Whether there are batches, none of which has taken much longer than it should."""
        return bool(self._tasks) and time.monotonic() < min(self._tasks.values())

    async def recognise(self, batch: Sequence[items.Item], is_urgent: bool = False) -> list[dict]:
        """Returns the outputs of each item; see served_version.ServedVersion.run.

        Cancelling it takes the items out of the queue. Urgent items go to its head, whatever its length.

        Raises:
            api_errors.ApiError: the queue is full.
            errors.UserError: the graph refuses an item.
        """
        self._queue.add(batch, self.rate, is_urgent)
        self._num_requests += not is_urgent
        self._has_new.set()
        for item in batch:
            item.group.version.begin_use()
        try:
            return await asyncio.gather(*(item.result for item in batch))
        finally:
            self._num_requests -= not is_urgent
            self._queue.remove(batch)
            for item in batch:
                item.result.cancel()
                item.group.version.end_use()

    async def run(self) -> None:
        """Recognises what is in the queue, until it is cancelled."""
        try:
            while True:
                await self._wait_for_turn()
                batch = self._take()
                if batch:
                    self._begin(batch)
        finally:
            for task in self._tasks:
                task.cancel()

    async def _wait_for_turn(self) -> None:
        """Returns when a batch may begin: alone, or half a full one beside another."""
        while True:
            await self._has_new.wait()
            if not self._tasks:
                return await self._wait_for_others()
            if self._half and len(self._tasks) < _NUM_THREADS and len(self._queue.items) >= self._half:
                return None
            self._has_new.clear()

    async def _wait_for_others(self) -> None:
        waiting = self._queue.items
        while waiting and len(waiting) < self._max_batch_size:
            left = waiting[0].arrival + self._delay - time.monotonic()
            if left <= 0:
                return
            self._has_new.clear()
            try:
                await asyncio.wait_for(self._has_new.wait(), min(left, _QUIET_SECONDS))
            except asyncio.TimeoutError:
                if self.count_requests() <= self._num_requests:
                    return

    def _take(self) -> list[items.Item]:
        is_full = bool(self._tasks) or len(self._queue.items) >= self._max_batch_size
        batch = self._queue.take(self._half if self._half and is_full else self._max_batch_size)
        if self._queue.items:
            self._has_new.set()
        else:
            self._has_new.clear()
        return batch

    def _begin(self, batch: Sequence[items.Item]) -> None:
        patience = max(_LEAST_PATIENCE_SECONDS, _PATIENCE * _cost(batch) / self.rate)
        task = asyncio.create_task(self._recognise(batch))
        self._tasks[task] = time.monotonic() + patience
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task) -> None:
        del self._tasks[task]
        self._has_new.set()

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
        """Counts a batch without what is urgent: that asks for the server's health."""
        counted = [item.seconds for item in batch if not item.is_urgent]
        if not counted:
            return
        rate = len(self._tasks) * sum(counted) / max(seconds, 1e-3)  # of all that run
        self.rate = _RATE_MEMORY * self.rate + (1 - _RATE_MEMORY) * rate
        self._metrics.count_batch(len(counted), sum(counted))


def _cost(batch: Sequence[items.Item]) -> float:
    """Returns the seconds of short audio that take as long as a batch."""
    longest = max(item.seconds for item in batch)
    return sum(item.seconds for item in batch) * max(1.0, longest / _LINEAR_SECONDS)
