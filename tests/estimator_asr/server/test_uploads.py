"""Uploaded recordings: decoded within limits."""

from __future__ import annotations

import io
import struct
import time
import types

import numpy as np
import pytest
import soundfile
import telephone_files

from estimator_asr.server import uploads
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


def test_another_rate():
    upload = uploads.read(encode(np.zeros(8000), rate=8000), 16000, 60)
    assert upload.seconds == pytest.approx(1.0, abs=0.01)


def test_hours_of_silence_are_refused_by_the_header():
    content = encode(np.zeros(16000 * 3600, np.int16))
    assert len(content) < 1_000_000
    started = time.monotonic()
    with pytest.raises(errors.UserError, match="^file: audio is longer than 600 s; send a shorter one$"):
        uploads.read(content, 16000, 600)
    assert time.monotonic() - started < 1


def test_audio_whose_header_has_no_length(monkeypatch):
    """It is decoded only until it is too long."""
    read = []

    class Endless:
        seconds = None

        def __init__(self, *_):
            pass

        def close(self):
            pass

        def __iter__(self):
            while True:
                read.append(1)
                yield np.zeros(16000, np.float32)

    monkeypatch.setattr(audio_files, "AudioBlocks", Endless)
    with pytest.raises(errors.UserError, match="file: audio is longer than 20 s"):
        uploads.read(b"x", 16000, 20)
    assert len(read) == 21


def make_blocks(wait):
    class Blocks:
        seconds = None

        def __init__(self, *_):
            pass

        def close(self):
            pass

        def __iter__(self):
            wait()
            yield np.zeros(16000, np.float32)

    return Blocks


def burn():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass


def test_audio_that_takes_long_to_decode(monkeypatch):
    monkeypatch.setattr(uploads, "_DECODING_SECONDS", 0.0)
    monkeypatch.setattr(audio_files, "AudioBlocks", make_blocks(burn))
    said = "^file: takes more than 0 s of CPU time for 1 s of audio; convert it to WAV or FLAC$"
    with pytest.raises(errors.UserError, match=said):
        uploads.read(b"x", 16000, 60)


def test_a_server_that_is_busy_refuses_no_audio(monkeypatch):
    monkeypatch.setattr(uploads, "_DECODING_SECONDS", 0.0)
    monkeypatch.setattr(audio_files, "AudioBlocks", make_blocks(lambda: time.sleep(0.5)))
    assert uploads.read(b"x", 16000, 60).seconds == 1


def test_the_limit_grows_with_the_audio():
    assert uploads._DECODING_SECONDS + 600 * uploads._SECONDS_PER_SECOND == 125


def test_seconds_by_the_header(monkeypatch):
    assert uploads.measure(encode(np.zeros(24000)), 16000, 60) == 1.5
    monkeypatch.setattr(
        audio_files, "AudioBlocks", lambda *_: types.SimpleNamespace(seconds=None, close=list)
    )
    assert uploads.measure(b"x", 16000, 60) == 60


@pytest.mark.parametrize("kind", ["m4a", "webm", "aac", "amr"])
def test_recordings_of_telephones(kind):
    content = telephone_files.encode(kind)
    assert uploads.measure(content, 16000, 60) == pytest.approx(2, abs=0.15)
    upload = uploads.read(content, 16000, 60)
    assert upload.seconds == pytest.approx(2, abs=0.15) and len(upload.pieces) == 1


def test_hours_of_silence_of_a_telephone_are_refused_by_the_header():
    content = telephone_files.encode("m4a", 700.0, level=0.0)
    with pytest.raises(errors.UserError, match="^file: audio is longer than 600 s; send a shorter one$"):
        uploads.read(content, 16000, 600)


def test_a_header_that_lies_about_the_length():
    """Its duration is a second, its packets are 100: it counts with those, as what waits for it does."""
    content = telephone_files.encode("webm", 100.0, level=0.0)
    duration = content.index(b"\x44\x89\x88") + 3
    content = content[:duration] + struct.pack(">d", 1000.0) + content[duration + 8 :]
    assert uploads.measure(content, 16000, 600) == pytest.approx(100, abs=0.1)
    for use in (uploads.measure, uploads.read):
        with pytest.raises(errors.UserError, match="^file: audio is longer than 60 s; send a shorter one$"):
            use(content, 16000, 60)


def test_times_of_packets_that_lie_about_the_length():
    """Its clock is 50 times as fast, for header and packets: it is decoded no further than they say."""
    content = telephone_files.encode("m4a", 100.0, level=0.0)
    clock = content.index(b"mdhd") + 16
    content = content[:clock] + struct.pack(">I", 50 * 44100) + content[clock + 4 :]
    assert uploads.measure(content, 16000, 60) == pytest.approx(2, abs=0.1)
    said = r"^file: is not a readable MP4, .* file \(it continues after its end at 2.00 s\)$"
    with pytest.raises(errors.UserError, match=said):
        uploads.read(content, 16000, 60)
