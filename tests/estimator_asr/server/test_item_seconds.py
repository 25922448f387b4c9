"""Seconds of items, by their headers and lengths."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
import soundfile

from estimator_asr.server import api_errors, item_seconds
from tfrecord_builder.audio import frontend

CONFIG = frontend.FrontendConfig()


@pytest.mark.parametrize(
    "rate, channels, subtype", [(8000, 1, "PCM_U8"), (16000, 1, "PCM_16"), (48000, 2, "FLOAT")]
)
def test_wav_by_its_header(rate, channels, subtype):
    file = io.BytesIO()
    soundfile.write(file, np.zeros([3 * rate, channels]), rate, format="WAV", subtype=subtype)
    assert item_seconds.measure("i", {"wav_bytes": file.getvalue()}, CONFIG) == pytest.approx(3.0, rel=0.01)


def test_bytes_without_a_header_count_as_8_bit_audio():
    assert item_seconds.measure("i", {"wav_bytes": b"x" * 32000}, CONFIG) == 2.0
    assert item_seconds.measure("i", {"wav_bytes": b""}, CONFIG) == 0.0


def test_waveforms_features_and_pinyin():
    waveform = {"waveform": np.zeros(8000), "num_samples": np.int32(10)}
    assert item_seconds.measure("i", waveform, CONFIG) == 0.5
    features = {"fbank": np.zeros([50, 80]), "num_frames": np.int32(50)}
    assert item_seconds.measure("i", features, CONFIG) == 0.5
    assert item_seconds.measure("i", {"pinyin": b"ni3 hao3"}, CONFIG) == 0.4


@pytest.mark.parametrize("length", [-1, 4])
def test_length_that_does_not_fit(length):
    with pytest.raises(api_errors.ApiError, match=rf"i.num_frames: is {length}, expected 0 to 3"):
        item_seconds.measure("i", {"fbank": np.zeros([3, 80]), "num_frames": np.int32(length)}, CONFIG)


def test_a_file_of_a_million_chunks_is_measured_at_once():
    content = b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 1_000_000
    started = time.process_time()
    assert item_seconds.measure("i", {"wav_bytes": content}, CONFIG) == pytest.approx(8_000_012 / 16000)
    assert time.process_time() - started < 0.1
