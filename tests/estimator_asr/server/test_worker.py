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


def test_calls_that_are_cancelled_before_they_begin_are_not_made():
    begun, goes_on, made = threading.Event(), threading.Event(), []

    def hold():
        begun.set()
        goes_on.wait(10)

    async def run():
        thread = worker.Worker()
        first = thread.call(hold)
        assert await asyncio.get_running_loop().run_in_executor(None, begun.wait, 10)
        thread.call(made.append, 1).cancel()
        await asyncio.sleep(0)  # asyncio tells the thread in its next iteration
        goes_on.set()
        await first
        await thread.call(made.append, 2)

    asyncio.run(run())
    assert made == [2]


def test_as_many_calls_at_once_as_there_are_threads():
    both = threading.Barrier(2)

    async def run():
        threads = worker.Worker(2)
        await asyncio.gather(*(threads.call(both.wait, 10) for _ in range(2)))

    asyncio.run(run())
