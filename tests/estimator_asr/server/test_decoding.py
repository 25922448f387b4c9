"""Uploads that are decoded at once, within a limit of their seconds."""

from __future__ import annotations

import asyncio
import io
import threading
import time

import local_server
import numpy as np
import pytest
import soundfile
import telephone_files

from estimator_asr.server import api_errors, decoding, uploads
from tfrecord_builder import errors


def encode(seconds):
    """A silent FLAC: hours are a few hundred kilobytes."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(int(16000 * seconds), np.int16), 16000, format="FLAC")
    return file.getvalue()


def count_seconds(decoder):
    return decoder._short.seconds + decoder._long.seconds


@pytest.fixture
def hold(monkeypatch):
    """Decoding waits for this event; `begun` has the seconds of what is being decoded."""
    goes_on, read = threading.Event(), uploads.read
    goes_on.begun = []

    def wait_and_read(*arguments):
        goes_on.begun.append(uploads.measure(*arguments))
        goes_on.wait(30)
        return read(*arguments)

    monkeypatch.setattr(uploads, "read", wait_and_read)
    yield goes_on
    goes_on.set()


def test_audio_that_is_being_decoded_has_a_limit(hold):
    async def run():
        decoder = decoding.Decoder(100.0, 100.0)
        first = [asyncio.ensure_future(decoder.decode(encode(30), 16000)) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert count_seconds(decoder) == 90
        with pytest.raises(api_errors.ApiError) as raised:
            await decoder.decode(encode(60), 16000)
        hold.set()
        assert [each.seconds for each in await asyncio.gather(*first)] == [30] * 3
        assert count_seconds(decoder) == 0
        return raised.value

    error = asyncio.run(run())
    assert error.status == 429
    assert error.message == (
        "server: 90 s of audio are being decoded, expected at most 100 s; send the request again in 5 s"
    )
    assert error.headers == {"retry-after": "5"}  # 90 s at 20 s per second


def test_a_long_recording_refuses_no_short_one(hold):
    """The first of 600 s fills all the room for long ones; a short one has a thread and room of its own."""

    async def run():
        decoder = decoding.Decoder(600.0, 600.0)
        long = asyncio.ensure_future(decoder.decode(encode(600), 16000))
        await asyncio.sleep(0.2)
        short = asyncio.ensure_future(decoder.decode(encode(3), 16000))
        with pytest.raises(api_errors.ApiError, match="600 s of audio are being decoded, .* again in 30 s$"):
            await decoder.decode(encode(61), 16000)
        await asyncio.sleep(0.2)
        assert sorted(hold.begun) == [3, 600]
        hold.set()
        return (await short).seconds, (await long).seconds

    assert asyncio.run(run()) == (3, 600)


def test_one_recording_of_any_length_is_accepted():
    async def run():
        return await decoding.Decoder(1.0, 100.0).decode(encode(20), 16000)

    assert asyncio.run(run()).seconds == 20


def test_recordings_of_browsers_count_with_their_seconds(hold):
    """A WebM of a browser has no duration in its header: it does not count as the longest one allowed."""

    async def run():
        decoder = decoding.Decoder(10.0, 100.0)
        content = telephone_files.encode("webm", live="1")
        both = [asyncio.ensure_future(decoder.decode(content, 16000)) for _ in range(2)]
        while count_seconds(decoder) < 4:
            await asyncio.sleep(0.02)
        assert count_seconds(decoder) == pytest.approx(4, abs=0.1)
        hold.set()
        return [each.seconds for each in await asyncio.gather(*both)]

    assert asyncio.run(run()) == pytest.approx([2, 2], abs=0.05)


def test_what_fails_or_is_cancelled_is_not_counted_any_more(hold):
    async def run():
        decoder = decoding.Decoder(100.0, 100.0)
        with pytest.raises(errors.UserError, match="^file: audio is longer than 100 s"):
            await decoder.decode(encode(101), 16000)
        waiting = asyncio.ensure_future(decoder.decode(encode(1), 16000))
        await asyncio.sleep(0.05)
        assert count_seconds(decoder) == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        return count_seconds(decoder)

    assert asyncio.run(run()) == 0


def test_many_silent_recordings_are_refused(tiny_export, hold):
    found = []
    with local_server.serve(tiny_export.export_dir, max_queue_seconds=100.0, stop_seconds=1) as server:

        def ask():
            files = {"file": ("silent.flac", encode(45))}
            found.append(server.post("/v1/audio/transcriptions", files=files))

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 20
        while len(found) < 3:
            assert time.monotonic() < end
            time.sleep(0.02)
        hold.set()
        for thread in threads:
            thread.join()
    assert sorted(each.status_code for each in found) == [200, 200, 429, 429, 429]
    assert {each.headers.get("retry-after") for each in found} == {None, "5"}


def test_the_server_stops_although_a_recording_is_decoded_for_ever(tiny_export, hold, caplog):
    found = []
    with local_server.serve(tiny_export.export_dir, stop_seconds=1) as server:

        def ask():
            found.append(server.post("/v1/audio/transcriptions", files={"file": ("a.flac", encode(1))}))

        thread = threading.Thread(target=ask)
        thread.start()
        while not hold.begun:
            time.sleep(0.02)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    thread.join()
    assert found[0].status_code == 503
    assert found[0].json()["error"]["message"] == "server: stops before the request is done; send it again"
    assert not [record for record in caplog.records if record.exc_info]
