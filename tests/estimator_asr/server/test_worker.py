"""The thread of the model."""

from __future__ import annotations

import asyncio
import threading

import pytest

from estimator_asr.server import worker


def test_calls_are_made_in_order_by_one_thread():
    threads = []

    def note(value):
        threads.append(threading.current_thread())
        return value

    async def run():
        thread = worker.Worker()
        return await asyncio.gather(*(thread.call(note, i) for i in range(5)))

    assert asyncio.run(run()) == [0, 1, 2, 3, 4]
    assert len(set(threads)) == 1 and threads[0].daemon


def test_errors_come_back_and_the_thread_goes_on():
    async def run():
        thread = worker.Worker()
        with pytest.raises(ZeroDivisionError):
            await thread.call(lambda: 1 / 0)
        return await thread.call(lambda: "on")

    assert asyncio.run(run()) == "on"
