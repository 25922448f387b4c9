"""The queue and its batches, with a model that runs for as long as the test wants."""

import asyncio
import contextlib
import threading
import time

import pytest

from estimator_asr.serving.server import api_errors, batching, limits, metrics, served_version
from tfrecord_builder import errors


class Version:
    """Stands in for a served version; returns the rows and records the batches."""

    version_dir = "export/1"

    def __init__(self):
        self.batches, self.users = [], 0
        self.may_run = threading.Event()
        self.may_run.set()

    def run(self, signature, hotwords, rows):
        self.may_run.wait(10)
        self.batches.append([row["x"] for row in rows])
        if any(row["x"] == "bad" for row in rows):
            raise errors.UserError("the model rejected the inputs (bad)")
        if any(row["x"] == "bug" for row in rows):
            raise RuntimeError("bug")
        return [{"y": row["x"]} for row in rows]

    @contextlib.contextmanager
    def used(self):
        self.users += 1
        yield
        self.users -= 1


def serve(scenario, count_requests=lambda: 0, counters=None, **changes):
    """Runs scenario(batcher, version) while a batcher is running; returns its result."""

    async def run():
        changed = {"max_batch_size": 4, "batch_delay_ms": 20.0, "max_queue_seconds": 100.0, **changes}
        batcher = batching.Batcher(limits.Limits(**changed), counters or metrics.Metrics(), count_requests)
        task = asyncio.ensure_future(batcher.run())
        try:
            return await asyncio.wait_for(scenario(batcher, Version()), 20)
        finally:
            task.cancel()

    return asyncio.run(run())


def serving(**options):
    """Makes a test from a coroutine function that gets a running batcher and a version; see serve."""

    def decorate(scenario):
        def test():
            serve(scenario, **options)

        test.__doc__ = scenario.__doc__
        return test

    return decorate


def make_item(version, x, seconds=1.0, hotwords=()):
    group = served_version.Group(version, "waveform", hotwords)
    return served_version.QueuedUtterance(group, {"x": x}, seconds)


def begin(batcher, version, x, seconds=1.0, is_urgent=False):
    """Queues an item; returns the task that waits for its result."""
    return asyncio.ensure_future(batcher.recognise([make_item(version, x, seconds)], is_urgent))


@serving()
async def test_items_that_arrive_together_share_a_batch(batcher, version):
    batches = ([make_item(version, x)] for x in "abc")
    results = await asyncio.gather(*map(batcher.recognise, batches))
    assert version.users == 0
    assert results == [[{"y": "a"}], [{"y": "b"}], [{"y": "c"}]]
    assert version.batches == [["a", "b", "c"]]


@serving(max_batch_size=1, max_queue_seconds=1000.0)
async def test_a_short_request_runs_between_the_items_of_a_long_one(batcher, version):
    """At 10 s of audio per second, the 20th of 100 items of 1 s has its turn after 2 s."""
    version.may_run.clear()
    running = begin(batcher, version, "first")
    await asyncio.sleep(0.1)
    many = asyncio.ensure_future(batcher.recognise([make_item(version, i) for i in range(100)]))
    await asyncio.sleep(0.5)
    short = begin(batcher, version, "short")
    await asyncio.sleep(0.1)
    version.may_run.set()
    await asyncio.gather(running, many, short)
    order = [x for batch in version.batches for x in batch]
    assert [x for x in order if isinstance(x, int)] == list(range(100))
    assert 3 <= order.index("short") <= 20


@serving()
async def test_the_queue_is_crowded_if_the_next_batch_is_full(batcher, version):
    """The later items of a long request do not count, however many there are."""
    batcher.queue.add([make_item(version, "a", 10.0) for _ in range(9)], False)
    found = [batcher.is_crowded]
    for _ in range(3):
        batcher.queue.add([make_item(version, "b")], False)
        found.append(batcher.is_crowded)
    assert found == [False, False, False, True]


@serving(batch_delay_ms=15000.0)
async def test_a_full_batch_does_not_wait(batcher, version):
    await batcher.recognise([make_item(version, x) for x in "abcd"])
    assert version.batches == [["a", "b", "c", "d"]]


@serving(batch_delay_ms=500.0, count_requests=lambda: 2)
async def test_a_batch_waits_for_requests_that_are_being_read_but_not_longer_than_the_delay(batcher, version):
    first = begin(batcher, version, "a")
    await asyncio.sleep(0.1)
    assert version.batches == []
    await asyncio.gather(first, batcher.recognise([make_item(version, "b")]))
    await batcher.recognise([make_item(version, "c")])
    assert version.batches == [["a", "b"], ["c"]]


@serving(max_batch_size=3)
async def test_a_batch_has_the_oldest_item_and_those_of_similar_length(batcher, version):
    lengths = {"a": 10, "b": 1, "c": 11, "d": 2, "e": 12}
    await batcher.recognise([make_item(version, x, length) for x, length in lengths.items()])
    assert version.batches == [["a", "c", "e"], ["b", "d"]]


@serving()
async def test_hotwords_are_not_mixed(batcher, version):
    batch = [make_item(version, "a"), make_item(version, "b", hotwords=("x",)), make_item(version, "c")]
    await batcher.recognise(batch)
    assert version.batches == [["a", "c"], ["b"]]


@serving(max_queue_seconds=1000.0)
async def test_long_items_are_in_small_batches(batcher, version):
    await batcher.recognise([make_item(version, x, 100) for x in "abcd"])
    assert version.batches == [["a", "b", "c"], ["d"]]


@serving()
async def test_an_item_of_a_disconnected_client_is_not_recognised(batcher, version):
    version.may_run.clear()
    first = begin(batcher, version, "a")
    await asyncio.sleep(0.1)
    gone = begin(batcher, version, "b")
    last = begin(batcher, version, "c")
    await asyncio.sleep(0.05)
    gone.cancel()
    version.may_run.set()
    await asyncio.gather(first, last)
    assert version.users == 0
    assert version.batches == [["a"], ["c"]]


@serving()
async def test_a_bad_item_does_not_affect_the_others(batcher, version):
    requests = [batcher.recognise([make_item(version, x)]) for x in ("a", "bad", "c")]
    first, bad, last = await asyncio.gather(*requests, return_exceptions=True)
    assert (first, last) == ([{"y": "a"}], [{"y": "c"}])
    assert str(bad) == "the model rejected the inputs (bad)"


@serving()
async def test_the_queue_continues_after_an_unexpected_exception(batcher, version):
    with pytest.raises(RuntimeError, match="bug"):
        await batcher.recognise([make_item(version, "bug")])
    assert await batcher.recognise([make_item(version, "a")]) == [{"y": "a"}]


@serving()
async def test_a_full_queue_refuses_and_says_when_to_retry(batcher, version):
    version.may_run.clear()
    batcher.queue.rate = 5.0
    running = begin(batcher, version, "a")
    await asyncio.sleep(0.1)
    waiting = begin(batcher, version, "b", 90)
    await asyncio.sleep(0)
    with pytest.raises(api_errors.ApiError) as raised:
        await batcher.recognise([make_item(version, "c", 60)])
    await_urgent = begin(batcher, version, "health", 60, is_urgent=True)
    await asyncio.sleep(0)
    version.may_run.set()
    await asyncio.gather(running, waiting, await_urgent)
    error = raised.value
    assert error.status == 429
    problem = "90 s of audio are waiting, and this request has 60 s (limit: 100 s in total)"
    assert error.message == f"the server is busy: {problem}; send the request again in 10 s"
    assert error.headers == {"retry-after": "10"}
    assert version.batches[:2] == [["a"], ["health", "b"]]


@serving(batch_delay_ms=0.0)
async def test_the_rate_is_a_moving_average(batcher, version):
    for _ in range(60):
        await batcher.recognise([make_item(version, "a", 50.0)])
    assert batcher.queue.rate > 1000


@serving()
async def test_a_long_batch_may_take_long_before_it_counts_as_stalled(batcher, version):
    """At 10 s of audio per second, four times the time for 20 s is 8 s; an item of 40 s counts double."""
    found = [batcher.stalls_at]
    for seconds in (2.0, 20.0, 40.0):
        version.may_run.clear()
        batcher.queue.rate = 10.0
        running = begin(batcher, version, "a", seconds)
        while not batcher.stalls_at:
            await asyncio.sleep(0.01)
        found.append(batcher.stalls_at - time.monotonic())
        version.may_run.set()
        await running
    assert found == pytest.approx([0.0, 3.0, 8.0, 32.0], abs=0.5)


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [(16, 0, [8, 8]), (15, 0, [15]), (8, 8, [8, 8]), (8, 7, [8]), (16, 16, [8, 8])],
)
def test_full_batches_run_as_two_halves_in_parallel(first, then, expected):
    """`expected` has the sizes of the batches that start before any batch ends."""

    async def scenario(batcher, version):
        version.may_run.clear()
        begun, run = [], version.run
        version.run = lambda *arguments: begun.append(len(arguments[2])) or run(*arguments)
        requests = [begin(batcher, version, i) for i in range(first)]
        await asyncio.sleep(0.1)
        requests += [begin(batcher, version, i) for i in range(then)]
        await asyncio.sleep(0.1)
        found = list(begun)
        version.may_run.set()
        rows = await asyncio.gather(*requests)
        return found, [row["y"] for (row,) in rows]

    found, rows = serve(scenario, max_batch_size=16)
    assert found == expected and rows == [*range(first), *range(then)]


def test_health_checks_are_not_counted():
    counters = metrics.Metrics()

    async def scenario(batcher, version):
        await batcher.recognise([make_item(version, "health")], is_urgent=True)
        assert batcher.queue.rate == 10.0
        version.may_run.clear()
        first = begin(batcher, version, "first", 2.0)
        await asyncio.sleep(0.1)
        health = begin(batcher, version, "health", is_urgent=True)
        other = begin(batcher, version, "a", 3.0)
        await asyncio.sleep(0.1)
        version.may_run.set()
        await asyncio.gather(first, health, other)
        return version.batches

    assert serve(scenario, counters=counters) == [["health"], ["first"], ["health", "a"]]
    assert b'asr_batch_size_bucket{le="1.0"} 2.0' in counters.format()
    assert b"asr_audio_seconds_total 5.0" in counters.format()


def make_items(*lengths, group="a", is_interim=False):
    own = served_version.Group(None, group, (), is_interim)
    return [served_version.QueuedUtterance(own, {}, seconds) for seconds in lengths]


def make_queue(max_seconds, rate):
    queue = batching.ItemQueue(max_seconds)
    queue.rate = rate
    return queue


@serving()
async def test_takes_the_first_item_and_those_of_similar_length(*_):
    """The other request's item precedes the second item of the first request, which waits for the first."""
    queue = make_queue(100.0, 1.0)
    queue.add(make_items(10, 1, 11), False)
    queue.add(make_items(10, group="b"), False)
    assert queue.seconds == 32
    taken = [[item.seconds for item in queue.take(2)] for _ in range(4)]
    assert (queue.items, queue.seconds) == ([], 0)
    assert taken == [[10, 11], [10], [1], []]


@serving()
async def test_attention_memory_limits_the_size_of_a_batch(*_):
    """A batch may use as much memory as one item of 180 s, which is as much as two items of 127 s need."""
    queue = make_queue(1000.0, 10.0)
    queue.add(make_items(127, 127, 127), False)
    assert [len(queue.take(16)) for _ in range(2)] == [2, 1]


@serving()
async def test_a_full_queue_refuses_all_but_urgent_items(*_):
    queue = make_queue(10.0, 5.0)
    queue.add(make_items(30), False)
    problem = r"30 s of audio are waiting, and this request has 5 s \(limit: 10 s in total\)"
    with pytest.raises(api_errors.ApiError, match=f"{problem}; .* in 5 s"):
        queue.add(make_items(5), False)
    queue.add(make_items(1, group="urgent"), True)
    taken = queue.take(1) + queue.take(1)
    assert [(item.seconds, item.is_urgent) for item in taken] == [(1, True), (30, False)]


@serving()
async def test_a_long_request_keeps_out_another_long_one_but_no_short_one(*_):
    """600 s take a minute, so the last item's turn is in a minute, after the turn of the item of 3 s."""
    queue = make_queue(600.0, 10.0)
    queue.add(make_items(*[24] * 25), False)
    queue.add(make_items(3, group="short"), False)
    problem = r"60. s of audio are waiting, and this request has 600 s \(limit: 600 s in total\)"
    with pytest.raises(api_errors.ApiError, match=f"{problem}; "):
        queue.add(make_items(*[24] * 25), False)
    assert [item.seconds for item in (*queue.take(1), *queue.take(1), *queue.take(1))] == [24, 3, 24]


@serving()
async def test_items_whose_client_has_gone_are_dropped(*_):
    queue, batch = make_queue(10.0, 5.0), make_items(1, 2)
    queue.add(batch, False)
    batch[0].result.cancel()
    assert [item.seconds for item in queue.take(5)] == [2]


@serving()
async def test_interim_results_wait_for_speech_that_has_ended(*_):
    """Interim items are in separate batches, and have their turn half a second after they arrive."""
    queue = make_queue(100.0, 1.0)
    queue.add(make_items(3, is_interim=True), False)
    queue.add(make_items(3), False)
    assert [[item.group.is_interim for item in queue.take(8)] for _ in range(2)] == [[False], [True]]
