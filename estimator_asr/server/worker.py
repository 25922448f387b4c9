"""A thread that calls one function at a time, for asyncio: TensorFlow's session has one batch at a time."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable


class Worker:
    """A daemon thread: one that stalls does not keep the process from ending."""

    def __init__(self):
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self._run, name="worker", daemon=True).start()

    def call(self, function: Callable, *arguments) -> asyncio.Future:
        """Returns the future of function(*arguments); calls are made in their order."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._calls.put((loop, future, function, arguments))
        return future

    def _run(self) -> None:
        while True:
            loop, future, function, arguments = self._calls.get()
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
