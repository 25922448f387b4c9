"""Normalisation of features by what was heard so far, for models that stream.

acoustic.normalise knows the whole recording; here a frame depends on itself and earlier ones alone. First the
level is taken away, the logarithm of the mean power so far: a few loud frames are enough to know it. Then
each bin is normalised, which takes longer. So that the first frames are not normalised by themselves,
PRIOR_FRAMES frames of average speech stand before them, as global statistics do in Kaldi (online-feature.h,
OnlineCmvnOptions: 200 of them in a window of 600).
"""

from __future__ import annotations

from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers, normalisation, streaming

PRIOR_FRAMES = 40.0
# Before a recording: quiet speech. Powers are those of the loudest bin, in natural logarithms.
LEVEL, LEVEL_FRAMES = 10.0, 10.0
DYNAMIC_RANGE = 6 * np.log(10.0)  # below the level: 60 dB
VARIANCE_FLOOR = 1e-2
_LARGEST = 80.0  # exp() of it is finite


def normalise(
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    is_training: bool,
    subsampling: int,
    stream: Optional[streaming.Stream],
) -> tf.Tensor:
    """Normalises each bin to about mean 0 and standard deviation 1; digital silence is raised first.

    Average speech is what batch norm learns of the training data.

    Args:
        fbank: float32 [batch, length, num_bins].
        num_frames: int32 [batch].
        subsampling: frames for each frame of the encoder, in which stream.before counts.

    Returns:
        float32 as fbank, zero at or beyond num_frames.
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
    """Returns the sum of each frame and all before it, float32 [batch, length, units]."""
    sums = tf.cumsum(layers.clear_padding(values, mask), axis=1)
    if state:
        before = state.take(name, tf.zeros([1, values.shape[2]]))
        sums = tf.concat([before, sums + before], axis=1)
        state.put(name, sums[:, -1:])
        sums = sums[:, 1:]
    return sums
