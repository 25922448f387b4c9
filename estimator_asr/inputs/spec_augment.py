"""SpecAugment (Park et al. 2019) without time warping: time and frequency masks, filled with the mean.

The masks depend only on the seed, not on the thread that computes them.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.experiment import config as config_lib


class Draws(NamedTuple):
    """Random numbers for each mask's width and start, uniform in [0, 1), float32 [batch, num_masks, 2]."""

    time: tf.Tensor
    frequency: tf.Tensor


def draw(config: config_lib.InputConfig, batch_size: tf.Tensor, seed: tf.Tensor) -> Draws:
    """Samples random numbers for the masks of a batch; `seed` is int64 [2]."""

    def sample(count, seed):  # XLA has a different default algorithm
        return tf.random.stateless_uniform([batch_size, count, 2], seed, alg="philox")

    return Draws(sample(config.time_masks, seed), sample(config.frequency_masks, seed + 1))


def mask_features(
    fbank: tf.Tensor, num_frames: tf.Tensor, config: config_lib.InputConfig, draws: Draws
) -> tf.Tensor:
    """Returns `fbank` with each masked value replaced by the mean of its bin over the utterance.

    `fbank` is float32 [batch, max_frames, num_bins]; frames from num_frames (int32 [batch]) on are unchanged.
    """
    batch, frames, bins = tf.unstack(tf.shape(fbank))
    fraction = config.time_mask_fraction / max(1, config.time_masks)
    most = tf.cast(fraction * tf.cast(num_frames, tf.float32), tf.int32)
    widest_time = tf.minimum(config.time_mask_frames, most)
    widest_frequency = tf.fill([batch], tf.minimum(config.frequency_mask_bins, bins))
    in_time = merge_masks(draws.time, widest_time, num_frames, frames)
    in_frequency = merge_masks(draws.frequency, widest_frequency, tf.fill([batch], bins), bins)
    masked = in_time[:, :, None] | in_frequency[:, None, :]
    is_frame = tf.sequence_mask(num_frames, frames)[:, :, None]
    count = tf.reduce_sum(tf.cast(is_frame, tf.float32), axis=1, keepdims=True)
    total = tf.reduce_sum(tf.where(is_frame, fbank, 0.0), axis=1, keepdims=True)
    return tf.where(masked & is_frame, tf.math.divide_no_nan(total, count), fbank)


def merge_masks(draws: tf.Tensor, widest: tf.Tensor, limit: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Returns the union of each utterance's masks, bool [batch, length].

    Each mask is 0 to `widest` wide, and lies within the first `limit` positions (both int32 [batch]). `draws`
    is float32 [batch, num_masks, 2].
    """
    width = tf.cast(draws[..., 0] * tf.cast(widest + 1, tf.float32)[:, None], tf.int32)
    start = tf.cast(draws[..., 1] * tf.cast(limit[:, None] - width + 1, tf.float32), tf.int32)
    cell = tf.range(length)[None, None, :]
    inside = (cell >= start[:, :, None]) & (cell < (start + width)[:, :, None])  # [batch, num_masks, length]
    return tf.reduce_any(inside, axis=1)
