"""Normalisation of features to mean 0 and standard deviation 1, over all frames or causally.

Causal normalisation is for streaming models, in which a frame must not depend on later frames. First, the
level (the logarithm of the mean power so far) is subtracted; a few loud frames are enough to estimate it.
Then each bin is normalised with statistics that need more frames. To keep the first frames from being
normalised only by themselves, PRIOR_FRAMES frames of average speech are assumed before them, just as Kaldi
starts with global statistics (online-feature.h, OnlineCmvnOptions: 200 frames in a window of 600).
"""

from __future__ import annotations

from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers, normalisation, streaming

DYNAMIC_RANGE = 6 * np.log(10.0)  # 60 dB, as a natural log ratio of powers; Whisper's audio.py keeps 80 dB
VARIANCE_FLOOR = 1e-2
EMPTY_BAND = 4 * np.log(10.0)  # 40 dB; a bin is empty if its peak is further than this below the loudest peak
FILL_WIDTH = 8.0  # an empty bin is filled from other bins, whose weight falls to 1/e at this distance in bins
PRIOR_FRAMES = 40.0
# LEVEL_FRAMES frames of quiet speech, whose loudest bin has natural log power LEVEL, are assumed first.
LEVEL, LEVEL_FRAMES = 10.0, 10.0
_LARGEST = 80.0  # upper limit for log power, so that exp() does not overflow


def normalise(fbank: tf.Tensor, num_frames: tf.Tensor, fill_bands: bool = False) -> tf.Tensor:
    """Normalises each bin of an utterance to mean 0 and variance 1, to remove effects of channel and level.

    In the log domain, digital silence is far below any speech and would compress the range of the speech. So
    all values are raised to at least the utterance's loudest value minus DYNAMIC_RANGE.

    Args:
        fill_bands: whether to fill empty bins with the mean of the other bins, weighted by exp(-distance /
            FILL_WIDTH). A bin is empty if it never comes within EMPTY_BAND of the loudest value, for example
            because it is above a codec's bandwidth. Bins masked by SpecAugment, which are constant and above
            digital silence, are not filled.

    Returns:
        float32 [batch, num_frames, num_bins] like fbank, zero at or beyond num_frames (int32 [batch]).
    """
    fbank = tf.cast(fbank, tf.float32)
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    is_frame = mask[:, :, None] > 0
    peaks = tf.reduce_max(tf.where(is_frame, fbank, fbank.dtype.min), axis=1, keepdims=True)
    loudest = tf.reduce_max(peaks, axis=2, keepdims=True)
    raised = tf.maximum(fbank, loudest - DYNAMIC_RANGE)
    normalised = normalisation.standardise(raised, mask, VARIANCE_FLOOR)
    if not fill_bands:
        return normalised
    lows = tf.reduce_min(tf.where(is_frame, fbank, fbank.dtype.max), axis=1, keepdims=True)
    is_masked = tf.equal(lows, peaks) & (lows > tf.reduce_min(lows, axis=2, keepdims=True))
    return _fill(normalised, (peaks < loudest - EMPTY_BAND) & ~is_masked)


def _fill(normalised: tf.Tensor, is_empty: tf.Tensor) -> tf.Tensor:
    """Fills empty bins in normalised, [batch, length, num_bins]; is_empty is bool [batch, 1, num_bins]."""
    bins = np.arange(normalised.shape[2])
    closeness = np.exp(-np.abs(bins[:, None] - bins) / FILL_WIDTH).astype(np.float32)
    weights = closeness * tf.cast(~tf.linalg.matrix_transpose(is_empty), tf.float32)
    weights /= tf.reduce_sum(weights, axis=1, keepdims=True)
    return tf.where(is_empty, tf.matmul(normalised, weights), normalised)


def normalise_causally(
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    is_training: bool,
    subsampling: int,
    stream: Optional[streaming.Stream],
) -> tf.Tensor:
    """Normalises each bin over the frames so far, after raising values to at least level - DYNAMIC_RANGE.

    Batch norm learns the statistics of average speech from the training data. With mixed precision, this
    function still computes in float32, because it comes before the first matrix product.

    Args:
        fbank: float32 [batch, length, num_bins].
        num_frames: int32 [batch].
        subsampling: input frames per encoder frame; stream.before counts encoder frames.

    Returns:
        float32 [batch, length, num_bins], zero at or beyond num_frames.
    """
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    fbank = layers.clear_padding(tf.cast(fbank, tf.float32), mask)
    state, before = (stream.state, stream.before) if stream else (None, None)
    count = tf.range(1.0, tf.cast(tf.shape(fbank)[1], tf.float32) + 1.0)[None, :, None]
    if state:
        count += tf.cast(before * subsampling, tf.float32)[:, None, None]
    power = tf.exp(tf.minimum(tf.reduce_max(fbank, axis=2, keepdims=True), _LARGEST))
    total = _accumulate(power, mask, state, "power")
    level = tf.math.log((LEVEL_FRAMES * np.exp(LEVEL) + total) / (count + LEVEL_FRAMES))
    raised = layers.clear_padding(tf.maximum(fbank - level, -DYNAMIC_RANGE), mask)
    count += PRIOR_FRAMES
    values = normalisation.batch_norm(raised, mask, is_training, "input_norm")
    mean = _accumulate(values, mask, state, "sum") / count
    square = (PRIOR_FRAMES + _accumulate(tf.square(values), mask, state, "square_sum")) / count
    centred = (values - mean) * tf.math.rsqrt(square - tf.square(mean) + VARIANCE_FLOOR)
    return layers.clear_padding(centred, mask)


def _accumulate(values, mask, state, name) -> tf.Tensor:
    """Returns the sum of all frames up to and including each frame, float32 [batch, length, units]."""
    sums = tf.cumsum(layers.clear_padding(values, mask), axis=1)
    if state:
        before = state.take(name, tf.zeros([1, values.shape[2]]))
        sums = tf.concat([before, sums + before], axis=1)
        state.put(name, sums[:, -1:])
        sums = sums[:, 1:]
    return sums
