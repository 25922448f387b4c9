"""Uploaded recordings: decoding, and the limits on one upload and on simultaneous uploads."""

import asyncio
import io
import itertools
import struct
import threading
import time

import local_server
import numpy as np
import programs
import pytest
import soundfile
import telephone_files

from estimator_asr.serving.server import api_errors, uploads
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files


def encode(waveform, format="FLAC", rate=16000):
    file = io.BytesIO()
    soundfile.write(file, waveform, rate, format=format)
    return file.getvalue()


def test_a_short_recording_is_one_piece():
    waveform = np.round(np.random.default_rng(1).normal(0, 1000, 24000)) / 32768
    upload = uploads.read(encode(waveform), 16000, 60)
    (piece,) = upload.pieces
    assert (piece.start, upload.seconds) == (0, 1.5)
    np.testing.assert_array_equal(piece.waveform, waveform.astype(np.float32))


def test_audio_at_another_rate_is_resampled():
    upload = uploads.read(encode(np.zeros(8000), rate=8000), 16000, 60)
    assert upload.seconds == pytest.approx(1.0, abs=0.01)


def refused_as_longer_than(seconds):
    message = f"^file: audio is longer than {seconds} s; send a shorter recording$"
    return pytest.raises(errors.UserError, match=message)


def test_hours_of_silence_are_refused_by_the_header():
    content = encode(np.zeros(16000 * 3600, np.int16))
    assert len(content) < 1_000_000
    started = time.monotonic()
    with refused_as_longer_than(600):
        uploads.read(content, 16000, 600)
    assert time.monotonic() - started < 1


SECOND = np.zeros(16000, np.float32)


def fake_audio(monkeypatch, blocks):
    """Makes every recording yield `blocks`, from a header without a length."""

    class Blocks:
        seconds, warning = None, ""

        def __init__(self, *_):
            pass

        def close(self):
            pass

        def __iter__(self):
            return iter(blocks)

    monkeypatch.setattr(audio_files, "AudioBlocks", Blocks)


def test_audio_whose_header_has_no_length(monkeypatch):
    """The audio is decoded only until it exceeds the limit."""
    read = []
    fake_audio(monkeypatch, (read.append(1) or SECOND for _ in itertools.count()))
    assert uploads.measure(b"x", 16000, 60) == 60
    with refused_as_longer_than(20):
        uploads.read(b"x", 16000, 20)
    assert len(read) == 21


def burn():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass


def test_audio_that_takes_long_to_decode(monkeypatch):
    monkeypatch.setattr(uploads, "_DECODING_SECONDS", 0.0)
    fake_audio(monkeypatch, (burn() or SECOND for _ in range(1)))
    said = "^file: decoding 1 s of audio takes more than 0 s of CPU time; convert the file to WAV or FLAC$"
    with pytest.raises(errors.UserError, match=said):
        uploads.read(b"x", 16000, 60)


def test_the_time_limit_of_decoding_ignores_a_busy_server(monkeypatch):
    monkeypatch.setattr(uploads, "_DECODING_SECONDS", 0.0)
    fake_audio(monkeypatch, (time.sleep(0.5) or SECOND for _ in range(1)))
    assert uploads.read(b"x", 16000, 60).seconds == 1


def test_the_time_limit_of_decoding_grows_with_the_audio():
    assert uploads._DECODING_SECONDS + 600 * uploads._SECONDS_PER_SECOND == 125


def test_recordings_are_measured_by_their_header():
    assert uploads.measure(encode(np.zeros(24000)), 16000, 60) == 1.5


@pytest.mark.parametrize("kind", ["m4a", "webm", "aac", "amr"])
def test_recordings_of_telephones_are_decoded(kind):
    content = telephone_files.encode(kind)
    assert uploads.measure(content, 16000, 60) == pytest.approx(2, abs=0.15)
    upload = uploads.read(content, 16000, 60)
    assert upload.seconds == pytest.approx(2, abs=0.15) and len(upload.pieces) == 1


def test_joined_recordings_count_with_all_their_seconds():
    content = telephone_files.encode("mp3", 1.0) + telephone_files.encode("mp3", 2.0)
    assert uploads.measure(content, 16000, 60) == pytest.approx(3, abs=0.2)
    assert uploads.read(content, 16000, 60).seconds == pytest.approx(3, abs=0.2)
    with refused_as_longer_than(2):
        uploads.read(content, 16000, 2)


def test_times_count_from_the_start_of_a_video():
    content = telephone_files.encode("m4a", start=4.0, video_seconds=6.0)
    upload = uploads.read(content, 16000, 60)
    assert upload.seconds == pytest.approx(6, abs=0.1)
    with refused_as_longer_than(5):
        uploads.measure(content, 16000, 5)


@pytest.mark.long
def test_hours_of_silence_of_a_telephone_are_refused_by_the_header():
    content = telephone_files.encode("m4a", 700.0, level=0.0)
    with refused_as_longer_than(600):
        uploads.read(content, 16000, 600)


def test_a_wrong_length_in_the_header_does_not_bypass_the_limit():
    """The header states 1 s, but the packets contain 100 s, which count towards all limits."""
    content = telephone_files.encode("webm", 100.0, level=0.0)
    duration = content.index(b"\x44\x89\x88") + 3
    content = content[:duration] + struct.pack(">d", 1000.0) + content[duration + 8 :]
    assert uploads.measure(content, 16000, 600) == pytest.approx(100, abs=0.1)
    for use in (uploads.measure, uploads.read):
        with refused_as_longer_than(60):
            use(content, 16000, 60)


def test_wrong_packet_times_do_not_bypass_the_limit():
    """Header and packet times are 50 times too fast; nothing after their end is decoded."""
    content = telephone_files.encode("m4a", 100.0, level=0.0)
    clock = content.index(b"mdhd") + 16
    content = content[:clock] + struct.pack(">I", 50 * 44100) + content[clock + 4 :]
    assert uploads.measure(content, 16000, 60) == pytest.approx(2, abs=0.1)
    said = "^file: the file cannot be read as WAV, .* .the audio continues past the expected end at 2.00 s.$"
    with pytest.raises(errors.UserError, match=said):
        uploads.read(content, 16000, 60)


def encode_silence(seconds):
    """Returns a silent FLAC file, in which hours take only a few hundred kilobytes."""
    return encode(np.zeros(int(16000 * seconds), np.int16))


@pytest.fixture
def hold(monkeypatch):
    """Makes decoding wait for an event; `begun` has the length of each recording whose decoding has begun."""
    goes_on, read = threading.Event(), uploads.read
    goes_on.begun = []

    def wait_and_read(*arguments):
        goes_on.begun.append(uploads.measure(*arguments))
        goes_on.wait(30)
        return read(*arguments)

    monkeypatch.setattr(uploads, "read", wait_and_read)
    yield goes_on
    goes_on.set()


@pytest.mark.long
def test_audio_that_is_being_decoded_has_a_limit(hold):
    async def run():
        decoder = uploads.UploadDecoder(100.0, 100.0)
        first = [asyncio.ensure_future(decoder.decode(encode_silence(30), 16000)) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert decoder.seconds == 90
        with pytest.raises(api_errors.ApiError) as raised:
            await decoder.decode(encode_silence(60), 16000)
        hold.set()
        assert [each.seconds for each in await asyncio.gather(*first)] == [30] * 3
        assert decoder.seconds == 0
        return raised.value

    error = asyncio.run(run())
    assert error.status == 429
    sizes = "90 s of audio are being decoded, and this request has 60 s (limit: 100 s in total)"
    assert error.message == f"the server is busy: {sizes}; send the request again in 5 s"
    assert error.headers == {"retry-after": "5"}  # 90 s at 20 s per second


@pytest.mark.long
def test_a_long_recording_does_not_keep_short_ones_out(hold):
    """A recording of 600 s fills the limit for long ones; short ones have their own thread and limit."""

    async def run():
        decoder = uploads.UploadDecoder(600.0, 600.0)
        long = asyncio.ensure_future(decoder.decode(encode_silence(600), 16000))
        await asyncio.sleep(0.2)
        short = asyncio.ensure_future(decoder.decode(encode_silence(3), 16000))
        with pytest.raises(api_errors.ApiError, match="600 s of audio are being decoded, .* again in 30 s$"):
            await decoder.decode(encode_silence(61), 16000)
        await asyncio.sleep(0.2)
        assert sorted(hold.begun) == [3, 600]
        hold.set()
        return (await short).seconds, (await long).seconds

    assert asyncio.run(run()) == (3, 600)


def test_one_recording_of_any_length_is_accepted():
    async def run():
        return await uploads.UploadDecoder(1.0, 100.0).decode(encode_silence(20), 16000)

    assert asyncio.run(run()).seconds == 20


def test_recordings_of_browsers_count_with_their_seconds(hold):
    """A browser's WebM file has no duration in its header, but does not count as the maximum length."""

    async def run():
        decoder = uploads.UploadDecoder(10.0, 100.0)
        content = telephone_files.encode("webm", live="1")
        both = [asyncio.ensure_future(decoder.decode(content, 16000)) for _ in range(2)]
        while decoder.seconds < 4:
            await asyncio.sleep(0.02)
        assert decoder.seconds == pytest.approx(4, abs=0.1)
        hold.set()
        return [each.seconds for each in await asyncio.gather(*both)]

    assert asyncio.run(run()) == pytest.approx([2, 2], abs=0.05)


def test_failed_and_cancelled_recordings_no_longer_count(hold):
    async def run():
        decoder = uploads.UploadDecoder(100.0, 100.0)
        with refused_as_longer_than(100):
            await decoder.decode(encode_silence(101), 16000)
        waiting = asyncio.ensure_future(decoder.decode(encode_silence(1), 16000))
        await asyncio.sleep(0.05)
        assert decoder.seconds == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        return decoder.seconds

    assert asyncio.run(run()) == 0


@pytest.mark.long
def test_many_silent_recordings_are_refused(tiny_export, hold):
    found = []
    with local_server.serve(tiny_export.export_dir, max_queue_seconds=100.0, stop_seconds=1) as server:

        def ask():
            files = {"file": ("silent.flac", encode_silence(45))}
            found.append(server.post("/v1/audio/transcriptions", files=files))

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        programs.wait_until(lambda: len(found) >= 3)
        hold.set()
        for thread in threads:
            thread.join()
    assert sorted(each.status_code for each in found) == [200, 200, 429, 429, 429]
    assert {each.headers.get("retry-after") for each in found} == {None, "5"}


@pytest.mark.long
def test_the_server_stops_even_if_decoding_never_ends(tiny_export, hold, caplog):
    found = []
    with local_server.serve(tiny_export.export_dir, stop_seconds=1) as server:

        def ask():
            files = {"file": ("a.flac", encode_silence(1))}
            found.append(server.post("/v1/audio/transcriptions", files=files))

        thread = threading.Thread(target=ask)
        thread.start()
        while not hold.begun:
            time.sleep(0.02)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    thread.join()
    assert found[0].status_code == 503
    message = "the server stopped before the request was finished; send the request again"
    assert found[0].json()["error"]["message"] == message
    assert not [record for record in caplog.records if record.exc_info]


def test_a_recording_of_a_disconnected_client_is_not_decoded(hold):
    async def run():
        decoder = uploads.UploadDecoder(100.0, 100.0)
        first, gone, last = (
            asyncio.ensure_future(decoder.decode(encode_silence(seconds), 16000)) for seconds in (1, 2, 3)
        )
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0.05)
        hold.set()
        await asyncio.gather(first, last)

    asyncio.run(run())
    assert hold.begun == [1, 3]
