"""The graph resamples as soxr does."""

import numpy as np
import pytest
import soxr
import tensorflow as tf

from estimator_asr.exporting.saved_model import resampling
from tfrecord_builder.audio import frontend


def make_signal(num_samples, rate, highest_hz, seed=0):
    """Returns noise with peak 0.5 that, like speech, falls by 6 dB per octave above 500 Hz."""
    rng = np.random.default_rng(seed)
    hz = np.fft.rfftfreq(num_samples, 1 / rate)
    noise = rng.standard_normal(len(hz)) + 1j * rng.standard_normal(len(hz))
    spectrum = np.where((hz > 50) & (hz < highest_hz), noise / np.maximum(hz, 500), 0)
    waveform = np.fft.irfft(spectrum, num_samples)
    return np.float32(0.5 * waveform / np.abs(waveform).max())


def decibels(error, signal):
    return 10 * np.log10(np.mean(np.square(error)) / np.mean(np.square(signal)) + 1e-30)


@pytest.fixture(scope="module")
def resample():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        waveform, rate = (tf.compat.v1.placeholder(*each) for each in ((tf.float32, [None]), (tf.int64, [])))
        runs = {
            to_rate: session.make_callable(resampling.resample(waveform, rate, to_rate), [waveform, rate])
            for to_rate in (8000, 16000)
        }
        yield lambda samples, from_rate, to_rate=16000: runs[to_rate](samples, from_rate)


@pytest.mark.parametrize("to_rate", [8000, 16000])
@pytest.mark.parametrize(
    "from_rate",
    [8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000, 176400, 192000]
    + [8001, 15999, 44101, 191999],  # ratios that are not simple
)
def test_speech_is_resampled_as_by_soxr(resample, from_rate, to_rate):
    signal = make_signal(from_rate, from_rate, 0.85 * min(from_rate, to_rate) / 2)
    expected = soxr.resample(signal, from_rate, to_rate)
    found = resample(signal, from_rate, to_rate)
    assert (found.shape, found.dtype) == (expected.shape, np.float32)
    assert decibels(found - expected, expected) < -60
    assert decibels((found - expected)[500:-500], expected) < -80  # away from the ends


@pytest.mark.parametrize("from_rate", [22050, 24000, 32000, 44100, 44101, 48000])
def test_mel_bins_equal_those_of_recordings_resampled_by_the_builder(resample, from_rate):
    noise = np.float32(0.05 * np.random.default_rng(0).standard_normal(2 * from_rate))  # white
    config = frontend.FrontendConfig()
    waveforms = resample(noise, from_rate), soxr.resample(noise, from_rate, 16000)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found, expected = session.run([frontend.extract(waveform, config) for waveform in waveforms])
    assert np.abs(found - expected).mean(axis=0).max() < 0.05


@pytest.mark.parametrize("num_samples", [0, 1, 2, 99, 16001])
def test_waveforms_at_the_model_rate_are_unchanged(resample, num_samples):
    waveform = np.float32(np.random.default_rng(1).standard_normal(num_samples))
    np.testing.assert_array_equal(resample(waveform, 16000), waveform)


@pytest.mark.parametrize("from_rate", [1000, 8000, 44100, 44101, 999_983, 1_000_000])
@pytest.mark.parametrize("num_samples", [0, 1, 7, 1000])
def test_the_number_of_samples_matches_the_duration(resample, from_rate, num_samples):
    found = resample(np.ones(num_samples, np.float32), from_rate)
    assert len(found) == (num_samples * 16000 * 2 + from_rate) // (2 * from_rate)  # rounded
    assert np.isfinite(found).all()


@pytest.mark.parametrize("from_rate", [22050, 44100, 44101, 96000])
def test_frequencies_above_the_nyquist_frequency_are_removed(resample, from_rate):
    tone = np.float32(np.sin(2 * np.pi * 9000 * np.arange(from_rate) / from_rate))
    assert decibels(resample(tone, from_rate)[500:-500], tone) < -80


@pytest.mark.parametrize("from_rate", [8000, 11025, 44100, 44101, 192000])
def test_a_tone_keeps_its_time_and_loudness(resample, from_rate):
    def tone(rate):
        return np.float32(np.sin(2 * np.pi * 1000 * np.arange(3 * rate) / rate))

    found = resample(tone(from_rate), from_rate)
    np.testing.assert_allclose(found[500:-500], tone(16000)[500:-500], atol=2e-4)
