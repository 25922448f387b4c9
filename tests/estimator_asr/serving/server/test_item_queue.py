"""The queue: turns, room, and what is taken together."""

from __future__ import annotations

import asyncio

import pytest

from estimator_asr.serving.server import api_errors, item_queue


def make_items(*lengths, group="a", is_interim=False):
    own = item_queue.Group(None, group, (), is_interim)
    return [item_queue.QueuedUtterance(own, {}, seconds) for seconds in lengths]


def make_queue(max_seconds, rate):
    queue = item_queue.ItemQueue(max_seconds)
    queue.rate = rate
    return queue


def run(scenario):
    async def call():
        return scenario()

    return asyncio.run(call())


def test_takes_the_first_item_and_those_of_similar_length():
    """The other request goes before the second item of the first one, which waits for the first item."""

    def scenario():
        queue = make_queue(100.0, 1.0)
        queue.add(make_items(10, 1, 11), False)
        queue.add(make_items(10, group="b"), False)
        assert queue.seconds == 32
        taken = [[item.seconds for item in queue.take(2)] for _ in range(4)]
        assert (queue.items, queue.seconds) == ([], 0)
        return taken

    assert run(scenario) == [[10, 11], [10], [1], []]


def test_attention_memory_limits_the_size_of_a_batch():
    """The limit is that of one item of 180 s: two items of 127 s need as much."""

    def scenario():
        queue = make_queue(1000.0, 10.0)
        queue.add(make_items(127, 127, 127), False)
        return [len(queue.take(16)) for _ in range(2)]

    assert run(scenario) == [2, 1]


def test_a_full_queue_refuses_all_but_urgent_items():
    def scenario():
        queue = make_queue(10.0, 5.0)
        queue.add(make_items(30), False)
        problem = r"30 s of audio are waiting and this request has 5 s \(limit: 10 s together\)"
        with pytest.raises(api_errors.ApiError, match=f"{problem}; .* in 5 s"):
            queue.add(make_items(5), False)
        queue.add(make_items(1, group="urgent"), True)
        return [(item.seconds, item.is_urgent) for item in queue.take(1) + queue.take(1)]

    assert run(scenario) == [(1, True), (30, False)]


def test_a_long_request_keeps_out_another_long_one_but_no_short_one():
    """600 s take a minute, so the last item has its turn in a minute; the 3 s go before it."""

    def scenario():
        queue = make_queue(600.0, 10.0)
        queue.add(make_items(*[24] * 25), False)
        queue.add(make_items(3, group="short"), False)
        problem = r"60. s of audio are waiting and this request has 600 s \(limit: 600 s together\)"
        with pytest.raises(api_errors.ApiError, match=f"{problem}; "):
            queue.add(make_items(*[24] * 25), False)
        return [item.seconds for item in (*queue.take(1), *queue.take(1), *queue.take(1))]

    assert run(scenario) == [24, 3, 24]


def test_items_whose_client_has_gone_are_dropped():
    def scenario():
        queue, batch = make_queue(10.0, 5.0), make_items(1, 2)
        queue.add(batch, False)
        batch[0].result.cancel()
        return [item.seconds for item in queue.take(5)]

    assert run(scenario) == [2]


def test_interim_results_wait_for_speech_that_has_ended():
    """Interim items are in separate batches, and have their turn half a second after they arrive."""

    def scenario():
        queue = make_queue(100.0, 1.0)
        queue.add(make_items(3, is_interim=True), False)
        queue.add(make_items(3), False)
        return [[item.group.is_interim for item in queue.take(8)] for _ in range(2)]

    assert run(scenario) == [[False], [True]]
