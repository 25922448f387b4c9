"""Normalisation of features over whole recordings, and over the frames so far."""

import numpy as np
import pytest
import tensorflow as tf
from graph_variables import run

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import batches
from estimator_asr.models import feature_norm


def make_fbank(batch, num_frames):
    return np.random.default_rng(1).normal(size=[batch, num_frames, 8])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_normalise_of_half_floats_has_float32_statistics(dtype):
    fbank = np.full([2, 9000, 1], 15.0)  # their sum is more than float16 holds
    fbank[:, ::2] = 17.0
    values = run(lambda: feature_norm.normalise(tf.cast(fbank, dtype), tf.constant([9000, 0])))
    np.testing.assert_allclose(values[0, :2], [[1], [-1]], atol=0.01)
    np.testing.assert_array_equal(values[1], 0)


def test_normalise_gives_each_bin_of_the_real_frames_mean_0_and_standard_deviation_1():
    fbank = [[[1.0, 5.0], [3.0, 9.0], [100.0, 100.0]]]
    values = run(lambda: feature_norm.normalise(tf.constant(fbank), tf.constant([2])))
    np.testing.assert_allclose(values, [[[-1, -1], [1, 1], [0, 0]]], atol=0.01)


def test_normalise_raises_digital_silence_to_60_db_below_the_loudest():
    silent, speech = -15.9, 20.0
    floor = speech - 6 * np.log(10.0)
    fbanks = [[[value], [speech], [18.0]] for value in (silent, floor)]
    values = run(lambda: feature_norm.normalise(tf.constant(fbanks), tf.constant([3, 3])))
    np.testing.assert_allclose(values[0], values[1], atol=1e-6)


def fill_bands(fbank, num_frames=None):
    num_frames = [fbank.shape[1]] * len(fbank) if num_frames is None else num_frames

    def normalise(fill):
        return feature_norm.normalise(tf.constant(fbank), tf.constant(num_frames), fill)

    return run(lambda: [normalise(fill) for fill in (False, True)])


def test_an_empty_bin_is_the_mean_of_the_others_the_nearest_first():
    """Bins 0 and 1 have speech; the others are 41 dB below it, as above a codec's bandwidth."""
    speech = make_fbank(1, 30)[..., :2]
    quiet = np.full([1, 30, 2], speech.max() - 4.1 * np.log(10.0), np.float32)
    quiet[0, 7] -= 1.0  # a constant bin would count as masked
    plain, filled = fill_bands(np.concatenate([speech, quiet], axis=2))
    np.testing.assert_array_equal(filled[..., :2], plain[..., :2])
    near, far = np.exp(-1 / 8), np.exp(-2 / 8)
    np.testing.assert_allclose(
        filled[..., 2], (near * plain[..., 1] + far * plain[..., 0]) / (near + far), atol=1e-6
    )
    assert np.abs(plain[..., 2:]).max() > 2  # without filling, noise is amplified


@pytest.mark.parametrize("is_digital_silence", [False, True])
def test_a_bin_that_is_masked_stays_masked_beside_an_empty_one(is_digital_silence):
    """A masked bin is constant at its mean, far below its peak; only empty bins are filled."""
    fbank = np.random.default_rng(0).normal(10, 1, [1, 200, 8]).astype(np.float32)
    fbank[:, ::20] += 15.0  # so the mean of each bin is far below its peak
    fbank[..., 6:] = -15.9 if is_digital_silence else fbank[..., 6:] - 20.0
    config = config_lib.InputConfig(time_masks=0, frequency_masks=1, frequency_mask_bins=2)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        num_frames = tf.constant([200])
        draws = batches.MaskDraws(tf.zeros([1, 0, 2]), tf.constant([[[0.99, 0.5]]]))  # bins 3 and 4
        masked = batches.mask_features(tf.constant(fbank), num_frames, config, draws)
        found = session.run(feature_norm.normalise(masked, num_frames, fill_bands=True))
    np.testing.assert_allclose(found[..., 3:5], 0, atol=1e-4)
    assert np.all(np.std(found, axis=1)[0, [0, 1, 2, 5, 6, 7]] > 0.3)


def test_a_bin_within_40_db_of_the_loudest_stays():
    fbank = make_fbank(1, 30)[..., :2]
    fbank[..., 1] += fbank[..., 0].max() - 3.9 * np.log(10.0) - fbank[..., 1].max()
    plain, filled = fill_bands(fbank)
    np.testing.assert_array_equal(plain, filled)


def test_the_bandwidth_of_a_recording_hardly_changes_its_features():
    """The upper quarter of the band either varies with the speech, as fricatives do, or is missing."""
    whole = np.repeat(make_fbank(1, 200)[..., :1], 80, axis=2) + 0.3 * np.random.default_rng(0).normal(
        size=[1, 200, 80]
    )
    whole = whole.astype(np.float32)
    narrow = whole.copy()
    narrow[..., 60:] -= 20.0
    (_, want), (cut, got) = fill_bands(whole), fill_bands(narrow)
    assert np.mean(np.square(got - want)[..., 60:]) < 0.15 < 0.9 < np.mean(np.square(cut - want)[..., 60:])
    np.testing.assert_array_equal(got[..., :60], want[..., :60])


def test_padding_and_empty_utterances_become_zeros():
    fbank = make_fbank(2, 12)
    fbank[..., 3] -= 30.0
    fbank[0, 9:] = np.nan
    for normalised in fill_bands(fbank, [9, 0]):
        assert np.isfinite(normalised).all() and normalised[0, :9].any()
        assert not normalised[0, 9:].any() and not normalised[1].any()


def run_causally(fbank, num_frames):
    """Runs with an untrained batch norm, which multiplies by 1 / sqrt(1 + its epsilon)."""
    return run(
        lambda: feature_norm.normalise_causally(
            tf.constant(fbank, tf.float32), tf.constant(num_frames), False, 4, None
        )
    )


def test_a_frame_is_normalised_by_itself_the_earlier_ones_and_forty_of_average_speech():
    """The level includes ten frames of level 10; average speech has mean 0 and standard deviation 1."""
    fbank = np.random.default_rng(1).normal(8.0, 4.0, [1, 40, 3])
    powers = np.concatenate([np.full(10, np.exp(10.0)), np.exp(fbank[0].max(axis=1))])
    levels = [np.log(powers[: 11 + place].mean()) for place in range(40)]
    values = np.maximum(fbank[0] - np.reshape(levels, [40, 1]), -6 * np.log(10.0)) / np.sqrt(1.001)
    for place, got in enumerate(run_causally(fbank, [40])[0]):
        heard = np.concatenate([np.tile([[1.0], [-1.0]], [20, 3]), values[: place + 1]])
        expected = (values[place] - heard.mean(axis=0)) / np.sqrt(heard.var(axis=0) + 0.01)
        np.testing.assert_allclose(got, expected, atol=1e-4)


def test_later_frames_and_padding_change_nothing():
    fbank = np.random.default_rng(1).normal(8.0, 3.0, [2, 30, 3])
    fbank[1] = fbank[0]
    fbank[1, 20:] = np.nan
    long, short = run_causally(fbank, [30, 20])
    np.testing.assert_allclose(long[:20], short[:20], atol=1e-6)
    np.testing.assert_array_equal(short[20:], 0)


def test_digital_silence_is_raised_to_60_db_below_the_level():
    """Silence of -15.9 comes after 1,000 frames of speech at 14, and is raised to 14 - 13.8."""
    fbank = np.full([1, 1100, 2], 14.0)
    silent = fbank.copy()
    fbank[0, 1050:], silent[0, 1050:] = 14.0 - 6 * np.log(10), -15.9
    np.testing.assert_allclose(run_causally(fbank, [1100]), run_causally(silent, [1100]), atol=2e-2)


def test_the_largest_features_stay_finite():
    assert np.isfinite(run_causally(np.full([1, 5, 2], 1e14), [5])).all()
