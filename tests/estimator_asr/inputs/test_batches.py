import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import config
from estimator_asr.inputs import batches


def alternate(batch, num_frames, num_bins):
    """Returns frames of 1 and -1 in turn, so that their mean, which replaces masked values, is 0."""
    signs = np.where(np.arange(num_frames) % 2, -1, 1).astype(np.float32)
    return np.tile(signs[None, :, None], [batch, 1, num_bins])


def mask(fbank, num_frames, settings, seed=(1, 2)):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        draws = batches.draw_masks(settings, len(num_frames), tf.constant(seed, tf.int64))
        masked = batches.mask_features(tf.constant(fbank), tf.constant(num_frames), settings, draws)
        return session.run(masked)


def draw(num_masks, widest, limit, length, count=200):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        widest, limit = tf.fill([count], widest), tf.fill([count], limit)
        draws = tf.random.stateless_uniform([count, num_masks, 2], [1, 2])
        return session.run(batches.merge_masks(draws, widest, limit, length))


def test_a_mask_is_contiguous_within_the_limit_and_of_any_width():
    drawn = draw(1, 4, 10, 15)
    widths = drawn.sum(axis=1)
    assert set(widths) == {0, 1, 2, 3, 4}
    assert not drawn[:, 10:].any() and drawn[:, 0].any() and drawn[:, 9].any()
    changes = np.abs(np.diff(np.pad(drawn, [[0, 0], [1, 1]]).astype(int), axis=1)).sum(axis=1)
    assert set(changes) == {0, 2}


def test_a_mask_can_cover_everything_and_without_masks_nothing_is_covered():
    assert set(draw(1, 3, 3, 3).sum(axis=1)) == {0, 1, 2, 3}
    assert not draw(0, 3, 3, 3).any()


def test_time_masks_hide_at_most_a_fraction_of_an_utterance():
    settings = config.InputConfig(
        time_masks=2, time_mask_fraction=0.2, time_mask_frames=100, frequency_masks=0
    )
    num_frames = np.array([50, 20, 4] * 100, np.int32)
    masked = mask(alternate(300, 60, 3), num_frames, settings)
    hidden = (masked == 0).all(axis=2).sum(axis=1)
    assert (hidden <= 0.2 * num_frames).all()
    assert hidden[0::3].max() == 10 and hidden[2::3].max() == 0


def test_a_time_mask_has_at_most_time_mask_frames():
    settings = config.InputConfig(time_masks=1, time_mask_fraction=1.0, time_mask_frames=7, frequency_masks=0)
    masked = mask(alternate(200, 60, 3), np.full(200, 60, np.int32), settings)
    assert (masked == 0).all(axis=2).sum(axis=1).max() == 7


def test_frequency_masks_cover_all_frames_but_no_padding():
    settings = config.InputConfig(time_masks=0, frequency_masks=1, frequency_mask_bins=5)
    masked = mask(alternate(100, 8, 10), np.full(100, 6, np.int32), settings)
    hidden = masked[:, :6] == 0
    assert (hidden.all(axis=1) == hidden.any(axis=1)).all()
    assert hidden[:, 0].sum(axis=1).max() == 5
    assert masked[:, 6:].all()


@pytest.mark.parametrize("padding", [1e6, np.nan, np.inf])
def test_masked_values_become_the_mean_of_their_bin_and_others_are_unchanged(padding):
    settings = config.InputConfig(time_masks=1, time_mask_fraction=1.0, frequency_masks=0)
    fbank = np.random.default_rng(0).normal([10, 20, 30], size=[20, 30, 3]).astype(np.float32)
    fbank[:, 25:] = padding  # does not count
    masked = mask(fbank, np.full(20, 25, np.int32), settings)
    is_hidden = ((masked != fbank) & ~np.isnan(fbank)).all(axis=2)
    assert is_hidden.any() and not is_hidden.all()
    means = np.broadcast_to(fbank[:, :25].mean(axis=1, keepdims=True), fbank.shape)
    np.testing.assert_allclose(masked[is_hidden], means[is_hidden], rtol=1e-5)
    np.testing.assert_array_equal(masked[~is_hidden], fbank[~is_hidden])


def test_an_utterance_without_frames_is_unchanged():
    masked = mask(alternate(1, 4, 3), np.zeros(1, np.int32), config.InputConfig())
    np.testing.assert_array_equal(masked, alternate(1, 4, 3))


def test_masks_depend_only_on_the_seed():
    settings = config.InputConfig(time_mask_fraction=1.0)
    fbank, frames = alternate(5, 40, 20), np.full(5, 40, np.int32)
    first = mask(fbank, frames, settings)
    np.testing.assert_array_equal(first, mask(fbank, frames, settings))
    assert (first != mask(fbank, frames, settings, seed=(1, 3))).any()
    assert (first != mask(fbank, frames, settings, seed=(2, 2))).any()


def test_an_utterance_has_the_same_masks_alone_as_among_others():
    settings = config.InputConfig(time_mask_fraction=1.0)
    fbank, frames = alternate(5, 40, 20), np.full(5, 40, np.int32)
    together = mask(fbank, frames, settings)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        draws = batches.draw_masks(settings, 5, tf.constant([1, 2], tf.int64))
        draws = batches.MaskDraws(*(values[1::2] for values in draws))
        some = session.run(batches.mask_features(tf.constant(fbank[1::2]), frames[1::2], settings, draws))
    np.testing.assert_array_equal(together[1::2], some)
