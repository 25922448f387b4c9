"""Batch norm that leaves padding out, with averages that are soon good and then long.

In training the statistics are those of the whole batch, over all replicas. They are float32 whatever the
inputs are, and no products of matrices, which mixed precision makes in float16. The moving averages are left
to who makes the training step: it decides whether a batch may change them (pending_updates).
"""

from __future__ import annotations

from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers, replicas

EPSILON = 1e-3  # as tf.compat.v1.layers.batch_normalization
# Batches hold utterances of one length, so their statistics differ: with averages over 100 batches (0.99) a
# tenth more errors were made (docs/results.md).
MOMENTUM = 0.998


def batch_norm(inputs: tf.Tensor, mask: tf.Tensor, is_training: bool, name: str = "batch_norm") -> tf.Tensor:
    """Normalises each unit over the real positions of the batch (Ioffe and Szegedy, 2015).

    Outside training the moving averages stand for the batch's statistics.

    Args:
      inputs: float [batch, length, ..., units]; between length and units any axes, all of them real.
      mask: float32 [batch, length].
      is_training: whether to use (and average) the batch's own statistics.
      name: variable scope.

    Returns:
      dtype and shape of inputs; at padding, what the input gives there.
    """
    units = inputs.shape[-1]
    with tf.compat.v1.variable_scope(name):
        scale, shift = layers.get_scale("scale", [units]), layers.get_bias("shift", [units])
        moving_mean = _get_moving_average("moving_mean", units, tf.compat.v1.zeros_initializer())
        moving_variance = _get_moving_average("moving_variance", units, tf.compat.v1.ones_initializer())
        num_updates = _get_moving_average("num_updates", None, tf.compat.v1.zeros_initializer())
    mean, variance = tf.identity(moving_mean), tf.identity(moving_variance)
    if is_training:
        batch_mean, batch_variance = _batch_moments(inputs, mask, mean)
        count = tf.identity(num_updates)
        share = 1.0 - _momentum(count)
        _defer(moving_mean, (batch_mean - mean) * share)
        _defer(moving_variance, (batch_variance - variance) * share)
        with tf.control_dependencies([count]):  # no read of the same step sees the next count
            _defer(num_updates, tf.ones([]))
        mean, variance = batch_mean, batch_variance
    gain = tf.math.rsqrt(variance + EPSILON) * scale
    return tf.cast(tf.cast(inputs, tf.float32) * gain + (shift - mean * gain), inputs.dtype)


def pending_updates() -> list[tuple[tf.Variable, tf.Tensor]]:
    """Returns what this replica's batch adds to the moving averages: pairs of variable and change."""
    variables, changes = (tf.compat.v1.get_collection(name) for name in _collections())
    return list(zip(variables, changes))


def _defer(average: tf.Variable, change: tf.Tensor) -> None:
    for name, value in zip(_collections(), (average, change)):
        tf.compat.v1.add_to_collection(name, value)


def _collections() -> tuple[str, str]:
    """Replicas build one graph, so each has collections of its own."""
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return f"moving_averages_{replica}", f"moving_average_changes_{replica}"


def _momentum(count: tf.Tensor) -> tf.Tensor:
    """Low at first, so that the start is soon forgotten (after tf.train.ExponentialMovingAverage)."""
    return tf.minimum(MOMENTUM, (1.0 + count) / (10.0 + count))


def _get_moving_average(name: str, units: Optional[int], initializer) -> tf.Variable:
    """Every replica has the same averages, as it has the same statistics; a checkpoint holds the first's."""
    return tf.compat.v1.get_variable(
        name,
        [] if units is None else [units],
        initializer=initializer,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def _batch_moments(inputs, mask, centre):
    """Mean and variance over all replicas; centre is the moving mean."""
    if replicas.num_replicas() == 1:
        return masked_moments(inputs, mask)
    return moments_over_replicas(inputs, mask, centre)


def masked_moments(inputs: tf.Tensor, mask: tf.Tensor) -> tuple:
    """Returns float32 mean and variance [units] of [batch, length, ..., units] where mask [batch, length]
    is 1."""
    count = tf.maximum(_count(inputs, mask), 1.0)
    mean = _sum_real(tf.cast(inputs, tf.float32), mask) / count
    # Moving the mean does not change the variance: its derivative is zero.
    centred = tf.cast(inputs, tf.float32) - tf.stop_gradient(mean)
    return mean, _sum_real(centred, mask, tf.square) / count


def moments_over_replicas(inputs: tf.Tensor, mask: tf.Tensor, centre: tf.Tensor) -> tuple:
    """Returns what masked_moments returns, of the inputs of all replicas, by one sum over them.

    The sum holds squares, whose difference would lose the variance's digits where the mean is far from zero:
    they are taken around centre [units], near to the mean and the same on all replicas.
    """
    centred = tf.cast(inputs, tf.float32) - centre
    sums = [_sum_real(centred, mask), _sum_real(centred, mask, tf.square)]
    total = replicas.differentiable_sum(tf.concat([*sums, [_count(inputs, mask)]], axis=0))
    units = inputs.shape[-1]
    offset, square = (part / tf.maximum(total[-1], 1.0) for part in (total[:units], total[units:-1]))
    return centre + offset, tf.maximum(square - tf.square(offset), 0.0)


def _sum_real(values, mask, function=tf.identity):
    """Sums the function of float32 [batch, length, ..., units] to [units] where mask is 1.

    Over the rows first: that is faster with all axes of a frame side by side.
    """
    rows = tf.reshape(function(layers.clear_padding(values, mask)), [-1, np.prod(values.shape[2:])])
    return tf.reduce_sum(tf.reshape(tf.reduce_sum(rows, axis=0), [-1, values.shape[-1]]), axis=0)


def _count(inputs, mask):
    """Values of a unit at real positions, float32 []."""
    return tf.reduce_sum(mask) * np.prod(inputs.shape[2:-1], initial=1)
