"""Compares Whisper's log-mel features with NumPy, and the mel filters with published values."""

import numpy as np
import pytest

from tfrecord_builder.audio import frontend, whisper_log_mel
from tfrecord_builder.program import lazy_tensorflow as tf

CONFIG = frontend.FrontendConfig(frontend="whisper_log_mel")


def extract(waveforms: np.ndarray, num_samples) -> np.ndarray:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        samples = tf.constant(waveforms, tf.float32)
        return session.run(frontend.extract(samples, CONFIG, tf.constant(num_samples)))


def reference(waveform: np.ndarray) -> np.ndarray:
    """Computes the features as Whisper's published audio.py does, in float64."""
    padded = np.pad(np.float64(waveform), 200, mode="reflect")
    window = np.hanning(401)[:-1]
    count = len(waveform) // 160
    spectra = [np.fft.rfft(padded[160 * i : 160 * i + 400] * window) for i in range(count)]
    energies = np.abs(np.array(spectra)) ** 2 @ np.float64(whisper_log_mel.mel_weights(80))
    decades = np.log10(np.maximum(energies, 1e-10))
    return (np.maximum(decades, decades.max() - 8.0) + 4.0) / 4.0


def speech_like(num_samples: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    tone = np.sin(np.arange(num_samples) * 0.1) * np.linspace(0, 1, num_samples)
    return np.float32(0.3 * tone + 0.01 * rng.normal(size=num_samples))


@pytest.mark.parametrize("num_samples", [16000, 15999, 201, 320])
def test_features_equal_those_of_the_published_code(num_samples):
    waveform = speech_like(num_samples, seed=1)
    found = extract(waveform[None], [num_samples])[0]
    assert found.shape == (num_samples // 160, 80)
    np.testing.assert_allclose(found, reference(waveform), atol=1e-4)


def test_padding_and_other_utterances_of_the_batch_do_not_change_features():
    short, long = speech_like(4000, seed=1), speech_like(9000, seed=2)
    batch = np.full([2, 9000], 1e3, np.float32)
    batch[0, :4000], batch[1] = short, long
    found = extract(batch, [4000, 9000])
    np.testing.assert_allclose(found[0, :25], extract(short[None], [4000])[0], atol=1e-6)
    np.testing.assert_array_equal(found[0, 25:], 0)
    np.testing.assert_allclose(found[1], extract(long[None], [9000])[0], atol=1e-6)


@pytest.mark.parametrize("num_samples", [0, 1, 2, 159, 160, 170])
def test_the_shortest_waveforms_have_features(num_samples):
    found = extract(np.full([1, num_samples], 0.1, np.float32), [num_samples])
    assert found.shape == (1, num_samples // 160, 80) and np.isfinite(found).all()


def test_silence_has_the_lowest_value():
    assert np.unique(extract(np.zeros([1, 1600], np.float32), [1600])) == pytest.approx([-1.5])


def test_no_value_is_more_than_two_below_the_loudest():
    waveform = speech_like(16000, seed=3)
    waveform[4000:8000] = 0
    found = extract(waveform[None], [16000])
    assert found.max() - found.min() == pytest.approx(2.0, abs=1e-5)


def test_mel_weights_equal_those_of_the_published_file():
    weights = whisper_log_mel.mel_weights(80)  # mel_filters.npz of openai/whisper, mel_80, float32
    published = {(1, 0): 0.024862595, (2, 1): 0.022871772}
    assert {place: weights[place] for place in published} == pytest.approx(published, abs=1e-9)
    assert weights[0].max() == 0 and weights[2, 0] == 0  # the first triangle ends at 80 Hz


@pytest.mark.parametrize("num_bins", [80, 128])
def test_each_mel_triangle_ends_at_the_peak_of_its_neighbour(num_bins):
    weights = whisper_log_mel.mel_weights(num_bins)
    assert weights.shape == (201, num_bins) and weights.min() == 0
    assert ((weights > 0).sum(axis=1) <= 2).all()  # a frequency lies in at most two triangles
    # Each triangle has the area 1; in steps of 40 Hz, wide triangles have a measured area of 0.92 to 1.08.
    assert np.abs(weights.sum(axis=0)[num_bins * 3 // 4 :] * 40.0 - 1.0).max() < 0.09
