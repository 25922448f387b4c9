"""Normalisation by what was heard so far."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_asr.models import running_norm


def run(fbank, num_frames):
    """The batch norm in it is new: it multiplies by 1 / sqrt(1 + its epsilon)."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = running_norm.normalise(
            tf.constant(fbank, tf.float32), tf.constant(num_frames), False, 4, None
        )
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run(values)


def test_a_frame_is_normalised_by_itself_the_earlier_ones_and_a_hundred_of_average_speech():
    fbank = np.random.default_rng(1).normal(8.0, 2.0, [1, 40, 3])  # above the level less 60 dB
    values = fbank / np.sqrt(1.001)
    for place, got in enumerate(run(fbank, [40])[0]):
        heard = np.concatenate([np.tile([[1.0], [-1.0]], [50, 3]), values[0, : place + 1]])
        mean, variance = heard.mean(axis=0), heard.var(axis=0)
        expected = (values[0, place] - mean) / np.sqrt(variance + 0.01)
        np.testing.assert_allclose(got, expected, atol=1e-4)


def test_later_frames_and_padding_change_nothing():
    fbank = np.random.default_rng(1).normal(8.0, 3.0, [2, 30, 3])
    fbank[1] = fbank[0]
    fbank[1, 20:] = np.nan
    long, short = run(fbank, [30, 20])
    np.testing.assert_allclose(long[:20], short[:20], atol=1e-6)
    np.testing.assert_array_equal(short[20:], 0)


def test_digital_silence_is_raised_to_60_db_below_the_level():
    """Of -15.9 and, after 1,000 frames of speech at 14, of 14 - 13.8."""
    fbank = np.full([1, 1100, 2], 14.0)
    silent = fbank.copy()
    fbank[0, 1050:], silent[0, 1050:] = 14.0 - 6 * np.log(10), -15.9
    np.testing.assert_allclose(run(fbank, [1100]), run(silent, [1100]), atol=2e-2)


def test_the_largest_features_stay_finite():
    assert np.isfinite(run(np.full([1, 5, 2], 1e14), [5])).all()
