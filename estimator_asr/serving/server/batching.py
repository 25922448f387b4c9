"""Dynamic batching: threads recognise the first item in a queue together with items of similar length.

If no batch is running, a batch starts as soon as it is full, its oldest item has waited for the maximum
delay, or no request is being read and no item has arrived for a few milliseconds. If batches are large
enough, a full batch is split into two halves, which run in two threads: while one half runs, the clients of
the other half get their results and send new requests. Items whose client has disconnected are dropped. A
request that would exceed the queue's limit is refused; the response says when the queue will have room, at
the measured rate.
"""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import Callable, Sequence
from concurrent import futures

from absl import logging

from estimator_asr.exporting.saved_model import statuses
from estimator_asr.serving.server import api_errors, limits, metrics, served_version
from tfrecord_builder import errors

_NUM_THREADS = 2
_LEAST_HALF = 8  # minimum items in half a batch; halving a smaller batch would hardly make it faster
_QUIET_SECONDS = 0.004  # maximum gap between requests from clients that got their results together
_RATE_MEMORY = 0.8  # weight of the previous value in the moving average of the rate
_PATIENCE = 4.0  # a batch has stalled if it takes this many times as long as the measured rate predicts
_LEAST_PATIENCE_SECONDS = 3.0
_LINEAR_SECONDS = 20.0  # a longer item takes time that grows with the square of its length (attention)
# Attention's memory is proportional to batch size x (seconds of the longest item)^2. A batch may use as much
# memory as a single item of maximum length.
_MAX_SQUARE_SECONDS = statuses.MAX_SECONDS**2
_INTERIM_SECONDS = 0.5  # interim items are queued as if they had arrived this many seconds later
_FIRST_RATE = 10.0  # seconds of audio per second, assumed until a batch has been measured
Batch = Sequence[served_version.QueuedUtterance]


class ItemQueue:
    """The items that are waiting to be recognised."""

    def __init__(self, max_seconds: float):
        self._max_seconds = max_seconds
        self.items: list[served_version.QueuedUtterance] = []  # the next one to be recognised comes first
        self.rate = _FIRST_RATE  # seconds of audio recognised per second, a moving average

    @property
    def seconds(self) -> float:
        return sum(item.seconds for item in self.items)

    def add(self, batch: Batch, is_urgent: bool) -> None:
        """Adds the items of a request; raises api_errors.ApiError if the queue is full.

        An item's turn is the time at which, at the measured rate, the earlier items in its request will be
        done, so short requests can run between a long request's items. Waiting items whose turn comes after
        the turn of the last new item do not count towards the limit, so a long request does not block short
        ones. If no waiting item counts, a request of any length is accepted; its length is limited elsewhere.
        """
        seconds = 0.0
        for item in batch:
            item.is_urgent = is_urgent
            item.turn = float("-inf") if is_urgent else item.arrival + seconds / self.rate
            item.turn += _INTERIM_SECONDS * item.group.is_interim
            seconds += item.seconds
        waiting = sum(item.seconds for item in self.items if batch and item.turn <= batch[-1].turn)
        excess = waiting + seconds - self._max_seconds
        if waiting and excess > 0 and not is_urgent:
            sizes = f"{waiting:.0f} s of audio are waiting, and this request has {seconds:.0f} s"
            problem = f"{sizes} (limit: {self._max_seconds:g} s in total)"
            raise api_errors.overloaded(problem, min(excess, waiting) / self.rate)
        self.items[:] = sorted([*self.items, *batch], key=operator.attrgetter("turn"))

    def remove(self, batch: Batch) -> None:
        removed = set(map(id, batch))
        self.items[:] = [item for item in self.items if id(item) not in removed]

    def take(self, max_size: int) -> list[served_version.QueuedUtterance]:
        """Removes and returns the first item, and the items in its group that are closest to it in length."""
        self.items[:] = [item for item in self.items if not item.result.done()]
        if not self.items:
            return []
        first = self.items[0]
        others = [item for item in self.items[1:] if item.group == first.group]
        batch, longest = [first], first.seconds
        for item in sorted(others, key=lambda item: abs(item.seconds - first.seconds)):
            longest = max(longest, item.seconds)
            if len(batch) >= max_size or (len(batch) + 1) * longest**2 > _MAX_SQUARE_SECONDS:
                break
            batch.append(item)
        self.remove(batch)
        return batch


class Batcher:
    """A worker that recognises queued items in batches; `recognise` waits forever unless `run` is running."""

    def __init__(self, settings: limits.Limits, counters: metrics.Metrics, count_requests: Callable[[], int]):
        """`count_requests` returns the number of requests that are being read or recognised."""
        self._max_batch_size, self._delay = settings.max_batch_size, settings.batch_delay_ms / 1000
        self._metrics, self._count_requests, self._num_requests = counters, count_requests, 0
        self.queue = ItemQueue(settings.max_queue_seconds)
        self._has_new = asyncio.Event()
        self._half = self._max_batch_size // 2 if self._max_batch_size >= 2 * _LEAST_HALF else None
        self._threads = futures.ThreadPoolExecutor(_NUM_THREADS)
        # Maps each running batch to the time from which the batch counts as stalled.
        self._tasks: dict[asyncio.Task, float] = {}
        counters.queue_length.set_function(lambda: len(self.queue.items))
        counters.queue_seconds.set_function(lambda: self.queue.seconds)

    @property
    def stalls_at(self) -> float:
        """Time (time.monotonic()) from which a running batch counts as stalled; 0 if none is running."""
        return min(self._tasks.values(), default=0.0)

    @property
    def is_crowded(self) -> bool:
        """True if the next batch has no room for an interim item that is queued now."""
        turn = time.monotonic() + _INTERIM_SECONDS
        return sum(item.turn <= turn for item in self.queue.items) >= self._max_batch_size

    async def recognise(self, batch: Batch, is_urgent: bool = False) -> list[dict]:
        """Returns the outputs for each item; see served_version.ServedVersion.run.

        The caller must keep the items' version open (ServedVersion.used). Cancelling the call removes the
        items from the queue. Urgent items go to the head of the queue, even if it is full.
        Raises api_errors.ApiError if the queue is full, and errors.UserError if the graph rejects an item.
        """
        self.queue.add(batch, is_urgent)
        self._num_requests += not is_urgent
        self._has_new.set()
        try:
            return await asyncio.gather(*(item.result for item in batch))
        finally:
            self._num_requests -= not is_urgent
            self.queue.remove(batch)
            for item in batch:
                item.result.cancel()

    async def run(self) -> None:
        """Recognises queued items until the task is cancelled."""
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
        """Waits until a batch may start: any batch if none is running, otherwise half of a full batch."""
        while True:
            await self._has_new.wait()
            if not self._tasks:
                return await self._wait_for_others()
            if self._half and len(self._tasks) < _NUM_THREADS and len(self.queue.items) >= self._half:
                return None
            self._has_new.clear()

    async def _wait_for_others(self) -> None:
        waiting = self.queue.items
        while waiting and len(waiting) < self._max_batch_size:
            remaining = waiting[0].arrival + self._delay - time.monotonic()
            if remaining <= 0:
                return
            self._has_new.clear()
            try:
                await asyncio.wait_for(self._has_new.wait(), min(remaining, _QUIET_SECONDS))
            except asyncio.TimeoutError:
                if self._count_requests() <= self._num_requests:
                    return

    def _take(self) -> list[served_version.QueuedUtterance]:
        is_full = bool(self._tasks) or len(self.queue.items) >= self._max_batch_size
        batch = self.queue.take(self._half if self._half and is_full else self._max_batch_size)
        if self.queue.items:
            self._has_new.set()
        else:
            self._has_new.clear()
        return batch

    def _begin(self, batch: Batch) -> None:
        longest = max(item.seconds for item in batch)
        # Seconds of audio that would take as long to recognise as this batch if they were in short items.
        cost = sum(item.seconds for item in batch) * max(1.0, longest / _LINEAR_SECONDS)
        patience = max(_LEAST_PATIENCE_SECONDS, _PATIENCE * cost / self.queue.rate)
        task = asyncio.create_task(self._recognise(batch))
        self._tasks[task] = time.monotonic() + patience
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task) -> None:
        del self._tasks[task]
        self._has_new.set()

    async def _recognise(self, batch: Batch) -> None:
        version, signature, hotwords, _ = batch[0].group
        rows, started = [item.row for item in batch], time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            with version.used():  # keeps the version open even if all clients of the batch disconnect
                results = await loop.run_in_executor(self._threads, version.run, signature, hotwords, rows)
        except Exception as error:
            return await self._blame(batch, error)
        self._measure(batch, time.monotonic() - started)
        for item, result in zip(batch, results):
            if not item.result.done():
                item.result.set_result(result)

    async def _blame(self, batch: Batch, error: Exception) -> None:
        """Recognises each item of a failed batch on its own, so that a bad item does not affect others."""
        if len(batch) > 1:
            for item in batch:
                if not item.result.done():
                    await self._recognise([item])
            return
        if not isinstance(error, errors.UserError):
            logging.error("%s: a batch failed: %s", batch[0].group.version.version_dir, error)
        if not batch[0].result.done():
            batch[0].result.set_exception(error)

    def _measure(self, batch: Batch, seconds: float) -> None:
        """Updates the rate and the metrics with a batch, except its urgent items, which are health checks."""
        lengths = [item.seconds for item in batch if not item.is_urgent]
        if lengths:
            rate = len(self._tasks) * sum(lengths) / max(seconds, 1e-3)  # total across all running batches
            self.queue.rate = _RATE_MEMORY * self.queue.rate + (1 - _RATE_MEMORY) * rate
            self._metrics.count_batch(len(lengths), sum(lengths))
