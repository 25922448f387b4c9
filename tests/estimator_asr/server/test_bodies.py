"""Bodies of requests: what is held, and which errors are those of the client."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from starlette import requests

from estimator_asr.server import api_errors, bodies

CHUNK_BYTES = 1 << 16


def make_request(num_chunks, receive=None):
    left = iter(range(num_chunks - 1, -1, -1))

    async def receive_chunk():
        return {"type": "http.request", "body": bytes(CHUNK_BYTES), "more_body": next(left) > 0}

    return requests.Request({"type": "http", "headers": []}, receive or receive_chunk)


def test_a_body_is_in_memory_once():
    num_bytes = 256 * CHUNK_BYTES

    async def run():
        reader = bodies.BodyReader(num_bytes, 10.0)
        async with reader.read(make_request(256)) as body:
            assert (len(body), reader.num_open) == (num_bytes, 1)
            peak = tracemalloc.get_traced_memory()[1]
            body.clear()
            assert tracemalloc.get_traced_memory()[0] < num_bytes / 10
            assert reader._num_held == num_bytes
        assert (reader._num_held, reader.num_open) == (0, 0)
        return peak

    tracemalloc.start()
    try:
        assert asyncio.run(run()) < 1.5 * num_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("error", [asyncio.TimeoutError(), requests.ClientDisconnect()])
def test_errors_after_the_body_are_not_those_of_the_client(error):
    async def run():
        async with bodies.BodyReader(1 << 20, 10.0).read(make_request(1)):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(run())


@pytest.mark.parametrize("status", [408, 499])
def test_errors_of_the_client(status):
    async def receive():
        if status == 408:
            await asyncio.sleep(10)
        return {"type": "http.disconnect"}

    async def run():
        reader = bodies.BodyReader(1 << 20, 0.05)
        async with reader.read(make_request(1, receive)):
            pass

    with pytest.raises(api_errors.ApiError) as raised:
        asyncio.run(run())
    assert raised.value.status == status
