"""Batch norm that leaves padding out, with averages that are soon good and then long."""

from __future__ import annotations

from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers

EPSILON = 1e-3  # as tf.compat.v1.layers.batch_normalization
# Batches hold utterances of one length, so their statistics differ: with averages over 100 batches (0.99) a
# tenth more errors were made (docs/results.md).
MOMENTUM = 0.998


def batch_norm(inputs: tf.Tensor, mask: tf.Tensor, is_training: bool, name: str = "batch_norm") -> tf.Tensor:
    """Normalises each unit over the real positions of the batch (Ioffe and Szegedy, 2015).

    Outside training the moving averages stand for the batch's statistics. They are updated by ops in the
    collection UPDATE_OPS.

    Args:
      inputs: float32 [batch, length, ..., units]; between length and units any axes, all of them real.
      mask: float32 [batch, length].
      is_training: whether to use (and average) the batch's own statistics.
      name: variable scope.

    Returns:
      float32, shape of inputs.
    """
    units = inputs.shape[-1]
    with tf.compat.v1.variable_scope(name):
        scale, shift = layers.get_scale("scale", [units]), layers.get_bias("shift", [units])
        moving_mean = _get_moving_average("moving_mean", units, tf.compat.v1.zeros_initializer())
        moving_variance = _get_moving_average("moving_variance", units, tf.compat.v1.ones_initializer())
        num_updates = _get_moving_average("num_updates", None, tf.compat.v1.zeros_initializer())
    mean, variance = tf.identity(moving_mean), tf.identity(moving_variance)
    if is_training:
        batch_mean, batch_variance = masked_moments(inputs, mask)
        share = 1.0 - _momentum(num_updates)
        _update(moving_mean, mean, batch_mean, share)
        _update(moving_variance, variance, batch_variance, share)
        mean, variance = batch_mean, batch_variance
    gain = tf.math.rsqrt(variance + EPSILON) * scale
    return inputs * gain + (shift - mean * gain)


def _momentum(num_updates: tf.Variable) -> tf.Tensor:
    """Low at first, so that the start is soon forgotten (after tf.train.ExponentialMovingAverage)."""
    count = tf.identity(num_updates)
    with tf.control_dependencies([count]):
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, num_updates.assign_add(1.0))
    return tf.minimum(MOMENTUM, (1.0 + count) / (10.0 + count))


def _update(average: tf.Variable, old: tf.Tensor, value: tf.Tensor, share: tf.Tensor) -> None:
    """Depends on the old value as it was read, so that no read of the same step sees the new one."""
    update = average.assign_add((value - old) * share)
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, update)


def _get_moving_average(name: str, units: Optional[int], initializer) -> tf.Variable:
    """Each replica averages its own batches; a checkpoint holds the mean over replicas."""
    return tf.compat.v1.get_variable(
        name,
        [] if units is None else [units],
        initializer=initializer,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.MEAN,
    )


def masked_moments(inputs: tf.Tensor, mask: tf.Tensor) -> tuple:
    """Returns mean and variance [units] of [batch, length, ..., units] where mask [batch, length] is 1."""
    mask = layers.expand_mask(mask, inputs)
    axes = list(range(inputs.shape.rank - 1))
    inner_size = np.prod(inputs.shape[2:-1], initial=1)
    count = tf.maximum(tf.reduce_sum(mask) * inner_size, 1.0)
    mean = tf.reduce_sum(inputs * mask, axis=axes) / count
    variance = tf.reduce_sum(tf.square((inputs - mean) * mask), axis=axes) / count
    return mean, variance
