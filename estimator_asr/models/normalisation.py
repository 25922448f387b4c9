"""Normalisation that ignores padding: batch norm, and normalisation of each sequence over time.

Batch norm has moving averages whose momentum grows with the number of updates. In training, its statistics
cover the whole batch, across all replicas. Statistics are always computed in float32 and without matrix
products, which mixed precision would run in float16. The training step updates the moving averages (see
pending_updates), unless it skips the update of the weights.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers, replicas

EPSILON = 1e-3  # default of tf.compat.v1.layers.batch_normalization
# The utterances in a batch have similar lengths, so statistics vary from batch to batch: averaging over only
# about 100 batches (momentum 0.99) caused 10% more errors.
MOMENTUM = 0.998


def standardise(inputs: tf.Tensor, mask: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Normalises each sequence, [batch, length, units], to mean 0 and variance 1 over time.

    `epsilon` is added to the variance. The result is zero where the mask, float32 [batch, length], is 0.
    """
    count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)[:, None, None]
    mean = tf.reduce_sum(layers.clear_padding(inputs, mask), axis=1, keepdims=True) / count
    centred = layers.clear_padding(inputs - mean, mask)
    variance = tf.reduce_sum(tf.square(centred), axis=1, keepdims=True) / count
    return centred * tf.math.rsqrt(variance + epsilon)


def batch_norm(inputs: tf.Tensor, mask: tf.Tensor, is_training: bool, name: str = "batch_norm") -> tf.Tensor:
    """Normalises each unit over the real positions in the batch (Ioffe and Szegedy, 2015).

    In training, the statistics are those of the batch itself, and their moving averages are updated.
    Otherwise, the statistics are the moving averages.

    Args:
        inputs: float [batch, length, ..., units]; any axes between length and units have no padding.
        mask: float32 [batch, length].

    Returns:
        Tensor with the dtype and shape of inputs; padding is normalised too.
    """
    units = inputs.shape[-1]
    with tf.compat.v1.variable_scope(name):
        scale, shift = layers.get_scale("scale", [units]), layers.get_bias("shift", [units])
        # All replicas have the same moving averages, because they compute the same statistics.
        moving_mean = replicas.get_variable("moving_mean", [units])
        moving_variance = replicas.get_variable("moving_variance", [units], 1.0)
        num_updates = replicas.get_variable("num_updates", [])
    mean, variance = tf.identity(moving_mean), tf.identity(moving_variance)
    if is_training:
        if replicas.num_replicas() == 1:
            batch_mean, batch_variance = masked_moments(inputs, mask)
        else:
            batch_mean, batch_variance = moments_over_replicas(inputs, mask, mean)
        count = tf.identity(num_updates)
        # Momentum starts low, to forget the initial values quickly (as in tf.train.ExponentialMovingAverage).
        rate = 1.0 - tf.minimum(MOMENTUM, (1.0 + count) / (10.0 + count))
        defer_update(moving_mean, (batch_mean - mean) * rate)
        defer_update(moving_variance, (batch_variance - variance) * rate)
        with tf.control_dependencies([count]):  # reads in the same step see the old count
            defer_update(num_updates, tf.ones([]))
        mean, variance = batch_mean, batch_variance
    gain = tf.math.rsqrt(variance + EPSILON) * scale
    return tf.cast(tf.cast(inputs, tf.float32) * gain + (shift - mean * gain), inputs.dtype)


def pending_updates() -> list[tuple[tf.Variable, tf.Tensor]]:
    """Returns this replica's updates to the moving averages, as (variable, change) pairs."""
    variables, changes = (tf.compat.v1.get_collection(name) for name in _collections())
    return list(zip(variables, changes))


def defer_update(average: tf.Variable, change: tf.Tensor) -> None:
    """Adds a moving average's update to this replica's pending updates."""
    for name, value in zip(_collections(), (average, change)):
        tf.compat.v1.add_to_collection(name, value)


def _collections() -> tuple[str, str]:
    """Returns the names of this replica's graph collections, which differ because replicas share a graph."""
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return f"moving_averages_{replica}", f"moving_average_changes_{replica}"


def masked_moments(inputs: tf.Tensor, mask: tf.Tensor) -> tuple:
    """Returns mean and variance, float32 [units], of inputs [batch, length, ..., units] where mask is 1."""
    count = tf.maximum(_count(inputs, mask), 1.0)
    mean = _sum_real(tf.cast(inputs, tf.float32), mask) / count
    # No gradient is needed, because the derivative of the variance with respect to the mean is zero.
    centred = tf.cast(inputs, tf.float32) - tf.stop_gradient(mean)
    return mean, _sum_real(centred, mask, tf.square) / count


def moments_over_replicas(inputs: tf.Tensor, mask: tf.Tensor, centre: tf.Tensor) -> tuple:
    """Returns the moments of all replicas' inputs together (see masked_moments), using one sum over replicas.

    The variance is the mean of squares minus the squared mean. If the mean is far from zero, this difference
    loses precision. So `centre` [units], near the mean and equal on all replicas, is subtracted first.
    """
    centred = tf.cast(inputs, tf.float32) - centre
    sums = [_sum_real(centred, mask), _sum_real(centred, mask, tf.square)]
    total = replicas.differentiable_sum(tf.concat([*sums, [_count(inputs, mask)]], axis=0))
    units = inputs.shape[-1]
    offset, square = (part / tf.maximum(total[-1], 1.0) for part in (total[:units], total[units:-1]))
    return centre + offset, tf.maximum(square - tf.square(offset), 0.0)


def _sum_real(values, mask, function=tf.identity):
    """Returns the sum of function(values) where the mask is 1, float32 [units].

    values are float32 [batch, length, ..., units]. Frames are added up first, which is faster because the
    values of a frame are contiguous in memory.
    """
    rows = tf.reshape(function(layers.clear_padding(values, mask)), [-1, np.prod(values.shape[2:])])
    return tf.reduce_sum(tf.reshape(tf.reduce_sum(rows, axis=0), [-1, values.shape[-1]]), axis=0)


def _count(inputs, mask):
    """Returns the number of values per unit, excluding padding, float32 []."""
    return tf.reduce_sum(mask) * np.prod(inputs.shape[2:-1], initial=1)
