import numpy as np
import pytest
import small_corpora

from tfrecord_builder.building.records import loudness


def test_a_full_scale_sine_has_minus_three_dbfs():
    level = loudness.measure(small_corpora.tone(2.0, level=1.0))
    assert level.peak_dbfs == pytest.approx(0.0, abs=1e-4)
    assert level.rms_dbfs == pytest.approx(-3.0103, abs=1e-3)
    assert level.clipped_samples == 0


def test_half_the_amplitude_is_six_decibels_less_on_either_side():
    for waveform in ([0.5, -0.25, 0.25], [-0.5, 0.25, -0.25]):
        level = loudness.measure(np.array(waveform, np.float32))
        assert level.peak_dbfs == pytest.approx(-6.0206, abs=1e-3)
        assert level.rms_dbfs == pytest.approx(10 * np.log10(0.375 / 3), abs=1e-3)


def test_the_rms_includes_every_sample():
    waveform = np.random.default_rng(0).normal(0, 0.1, 256 * 40 + 77).astype(np.float32)
    expected = 10 * np.log10(np.mean(np.square(waveform.astype(np.float64))))
    assert loudness.measure(waveform).rms_dbfs == pytest.approx(expected, abs=1e-5)
    assert loudness.measure(waveform[:1]).rms_dbfs == pytest.approx(20 * np.log10(abs(waveform[0])), abs=1e-4)


def test_a_long_recording_loses_no_precision():
    waveform = np.full(16000 * 600, 0.1, np.float32)
    assert loudness.measure(waveform).rms_dbfs == pytest.approx(-20.0, abs=1e-5)


def test_silence_is_reported_as_the_floor_level():
    assert loudness.measure(np.zeros(100, np.float32)) == loudness.Loudness(-120.0, -120.0, 0)
    assert loudness.measure(np.full(100, 1e-9, np.float32)).rms_dbfs == -120.0


def test_only_runs_of_full_scale_samples_count_as_clipping():
    one, two, three = [0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1, 0]
    negative, changing = [0, -1, -1, -1, -1, 0], [0, 1, -1, 1, 0]
    waveform = np.array([1, 1, 1, *one, *two, *three, *negative, *changing, 1.2, 0.9995, 1], np.float32)
    assert loudness.measure(waveform).clipped_samples == 3 + 3 + 4 + 3 + 3
    assert loudness.measure(waveform[3:10]).clipped_samples == 0
    assert loudness.measure(np.full(100, 0.99, np.float32)).clipped_samples == 0


def test_a_clipped_sine_is_detected():
    waveform = np.clip(small_corpora.tone(1.0, level=1.5), -1, 1)
    assert loudness.measure(waveform).clipped_samples == np.sum(np.abs(waveform) == 1)
