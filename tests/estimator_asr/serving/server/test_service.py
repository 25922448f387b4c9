"""Request bodies, the memory that they use, and client errors while reading them; limits on hotwords."""

import asyncio
import tracemalloc

import pytest
from starlette import requests

from estimator_asr.serving.server import api_errors, service

CHUNK_BYTES = 1 << 16


def make_request(num_chunks, receive=None):
    left = iter(range(num_chunks - 1, -1, -1))

    async def receive_chunk():
        return {"type": "http.request", "body": bytes(CHUNK_BYTES), "more_body": next(left) > 0}

    return requests.Request({"type": "http", "headers": []}, receive or receive_chunk)


def test_a_body_is_in_memory_once():
    num_bytes = 256 * CHUNK_BYTES

    async def run():
        reader = service.BodyReader(num_bytes, 10.0)
        async with reader.read(make_request(256)) as body:
            assert (len(body), reader.num_open) == (num_bytes, 1)
            peak = tracemalloc.get_traced_memory()[1]
            body.clear()
            assert tracemalloc.get_traced_memory()[0] < num_bytes / 10
            assert reader.num_held == num_bytes
        assert (reader.num_held, reader.num_open) == (0, 0)
        return peak

    tracemalloc.start()
    try:
        assert asyncio.run(run()) < 1.5 * num_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("error", [asyncio.TimeoutError(), requests.ClientDisconnect()])
def test_errors_after_the_body_is_read_are_not_client_errors(error):
    async def run():
        async with service.BodyReader(1 << 20, 10.0).read(make_request(1)):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(run())


@pytest.mark.parametrize("status", [408, 499])
def test_slow_and_disconnected_clients_have_their_own_status(status):
    async def receive():
        if status == 408:
            await asyncio.sleep(10)
        return {"type": "http.disconnect"}

    async def run():
        reader = service.BodyReader(1 << 20, 0.05)
        async with reader.read(make_request(1, receive)):
            pass

    with pytest.raises(api_errors.ApiError) as raised:
        asyncio.run(run())
    assert raised.value.status == status


@pytest.mark.parametrize(
    "hotwords, problem",
    [
        (["a"] * 1001, "the request has 1001 hotwords, expected at most 1000; send fewer"),
        (
            ["a", "x" * 60000],
            "a hotword has 60000 characters including its pinyin, expected at most 400; shorten the hotword",
        ),
        (
            ["x" * 400] * 101,
            "the hotwords have 40400 characters including their pinyin, expected at most 40000; send fewer",
        ),
    ],
)
def test_hotwords_that_are_too_many_or_too_long(hotwords, problem):
    """A hotword of 60,000 letters once made the graph use 14 GB."""
    with pytest.raises(api_errors.ApiError) as caught:
        service.check_hotwords(hotwords)
    assert (caught.value.status, str(caught.value)) == (400, problem)


@pytest.mark.parametrize("hotwords", [[], ["x" * 400] * 100, ["神雕侠侣 shen2 diao1 xia2 lv3"] * 1000])
def test_as_many_hotwords_as_allowed(hotwords):
    service.check_hotwords(hotwords)
