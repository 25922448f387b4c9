"""Tests the recordings in a report with synthetic audio: levels, MP3 files and spectrograms."""

import base64
import io
from unittest import mock

import numpy as np
import pytest
import soundfile

from estimator_asr.scoring.reports import clips
from tfrecord_builder.audio import audio_files
from tfrecord_builder.data import recordings


def sine(hertz, seconds=1.0, rate=16000, amplitude=1.0):
    return amplitude * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


@pytest.fixture
def found(tmp_path):
    samples = {"loud": sine(1000), "quiet": sine(1000, amplitude=0.1), "silent": np.zeros(16000)}
    for name, waveform in samples.items():
        soundfile.write(tmp_path / f"{name}.wav", waveform, 16000, subtype="FLOAT")
    (tmp_path / "damaged.wav").write_bytes(b"RIFF")
    names = (*samples, "damaged", "missing")
    return {name: recordings.Recording(str(tmp_path / f"{name}.wav")) for name in names}


def test_levels_are_in_dbfs(found):
    expected = {"loud": 0.0, "quiet": -20.0, "silent": -100.0}
    assert clips.measure_levels(found) == pytest.approx(expected, abs=0.01)


def test_only_the_segment_of_a_recording_is_measured(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.concatenate([np.zeros(16000), sine(500, amplitude=0.5)]), 16000)
    levels = clips.measure_levels({"u": recordings.Recording(str(tmp_path / "a.wav"), 1.0, 1.0)})
    assert levels["u"] == pytest.approx(-6.02, abs=0.02)


def test_embedded_recordings_can_be_played(found):
    embedded = clips.embed(found, ["loud", "damaged", "missing", "nobody"])
    assert list(embedded) == ["loud"]
    kind, data = embedded["loud"]["url"].split(",")
    assert kind == "data:audio/mpeg;base64"
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(data)))
    assert rate == 16000 and len(samples) == pytest.approx(16000, abs=2500)  # MP3 adds padding
    strongest = np.argmax(np.abs(np.fft.rfft(samples[:16000])))
    assert strongest == pytest.approx(1000, abs=2)
    picture = base64.b64decode(embedded["loud"]["picture"])
    assert len(picture) == 64 * embedded["loud"]["width"]


def test_a_file_is_opened_once_for_all_its_segments(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.wav", sine(1000), 16000)
    monkeypatch.setattr(audio_files, "open_file", mock.Mock(side_effect=audio_files.open_file))
    found = {name: recordings.Recording(str(tmp_path / "a.wav"), i / 4, 0.25) for i, name in enumerate("abc")}
    assert list(clips.embed(found, list(found))) == ["a", "b", "c"]
    assert audio_files.open_file.call_count == 1


def test_a_tone_is_one_row_of_the_spectrogram():
    """Each row covers 125 Hz; the first row ends at 8 kHz."""
    picture = clips.draw(sine(2060))
    assert picture.shape == (64, 63) and picture.dtype == np.uint8
    assert set(picture.argmax(axis=0)) == {64 - 1 - 2060 // 125}
    assert picture.max() == 255 and np.median(picture) == 0


def test_recordings_that_are_not_finite_too_long_or_remote_are_left_out(tmp_path):
    waveforms = {"nan": [0.0, np.nan] * 800, "inf": [0.0, np.inf] * 800, "long": np.ones(31 * 16000) * 0.1}
    found = {"remote": recordings.Recording("s3://bucket/a.wav")}
    for name, waveform in waveforms.items():
        soundfile.write(tmp_path / f"{name}.wav", waveform, 16000, subtype="FLOAT")
        found[name] = recordings.Recording(str(tmp_path / f"{name}.wav"))
    assert clips.embed(found, list(found)) == {}
    assert list(clips.measure_levels(found)) == ["long"]


@pytest.mark.parametrize("num_samples", [1, 511, 512, 80000])
def test_spectrograms_of_any_length(num_samples):
    picture = clips.draw(np.ones(num_samples, np.float32))
    assert picture.shape[0] == 64 and 1 <= picture.shape[1] <= 160
