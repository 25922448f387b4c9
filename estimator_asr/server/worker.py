"""Threads that call functions for asyncio; unlike its executors' they do not keep the process alive."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable


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
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._calls.put((loop, future, function, arguments))
        return future

    def _run(self) -> None:
        while True:
            _make(*self._calls.get())


def _make(loop: asyncio.AbstractEventLoop, future: asyncio.Future, function: Callable, arguments) -> None:
    if future.cancelled():
        return
    try:
        outcome = (function(*arguments), None)
    except Exception as error:
        outcome = (None, error)
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(_settle, future, *outcome)


def _settle(future: asyncio.Future, result, error) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
