"""Threads that call functions for asyncio; unlike its executors' they do not keep the process alive."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable

_SMALL_BYTES = 1 << 20  # JSON, or the header of a recording, that is read in a few milliseconds


class Worker:
    """Daemon threads, by default one: TensorFlow's session has one batch at a time."""

    def __init__(self, num_threads: int = 1):
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        for _ in range(num_threads):
            threading.Thread(target=self._run, name="worker", daemon=True).start()

    def call(self, function: Callable, *arguments) -> asyncio.Future:
        """Returns the future of function(*arguments); calls begin in their order.

        One whose future is cancelled before is not made.
        """
        future = concurrent.futures.Future()
        self._calls.put((future, function, arguments))
        return asyncio.wrap_future(future)

    async def parse(self, function: Callable, content: bytes | bytearray, *arguments):
        """Returns function(content, *arguments), in a thread if that may take long."""
        if len(content) <= _SMALL_BYTES:
            return function(content, *arguments)
        return await self.call(function, content, *arguments)

    def _run(self) -> None:
        while True:
            _make(*self._calls.get())


def _make(future: concurrent.futures.Future, function: Callable, arguments) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
