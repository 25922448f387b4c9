"""One optimiser path for both models: gradients, exact global-norm clipping, update; with or without a
strategy.

Under a strategy a v1 optimizer divides gradients by the number of replicas and sums them when it applies
them. Clipping needs the norm of the whole gradient, so the sum is made first, clipped, and applied as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.training import lazy_adam, replica_sums


class Update(NamedTuple):
    """What a training step does and shows."""

    train_op: tf.Operation
    number: tf.Tensor  # int64 [], the global step before the update
    gradients: tuple  # of (gradient, variable), summed over all replicas, before clipping
    gradient_norm: tf.Tensor  # float32 [], global norm of them
    is_finite: tf.Tensor  # bool [], whether loss and gradients of all replicas are numbers
    num_parameters: int


def build_optimizer(
    config: config_lib.OptimizerConfig, learning_rate: tf.Tensor
) -> tf.compat.v1.train.Optimizer:
    """Returns the v1 optimizer of the config."""
    if config.optimizer == "adam":
        return lazy_adam.LazyAdamOptimizer(
            learning_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon
        )
    return tf.compat.v1.train.MomentumOptimizer(learning_rate, config.momentum)


def minimize(
    loss: tf.Tensor, optimizer: tf.compat.v1.train.Optimizer, clip_norm: float, global_step: tf.Variable
) -> Update:
    """Builds one update that also runs the update ops of batch norm.

    Args:
        loss: float32 [], of this replica; the mean over the replicas is minimised.
        optimizer: a v1 optimizer (under a strategy others sum where these average).
        clip_norm: largest global norm of the gradient; 0 leaves it as it is.
        global_step: raised by one.
    """
    pairs = [pair for pair in optimizer.compute_gradients(loss) if pair[0] is not None]
    gradients, variables = zip(*pairs)
    *gradients, total = sum_over_replicas([*gradients, loss])
    gradients = summed = [_merge_rows(gradient) for gradient in gradients]
    norm = tf.linalg.global_norm(gradients)
    if clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
    number = tf.identity(global_step)
    update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies([*update_ops, number]):
        train_op = replica_sums.apply(optimizer, list(zip(gradients, variables)), global_step)
    return Update(
        train_op,
        number,
        tuple(zip(summed, variables)),
        norm,
        tf.math.is_finite(norm) & tf.math.is_finite(total),
        sum(variable.shape.num_elements() for variable in variables),
    )


def num_replicas() -> int:
    """Returns how many replicas take part in a step; 1 without a strategy."""
    return tf.distribute.get_replica_context().num_replicas_in_sync


def sum_over_replicas(values: list) -> list:
    """Returns the sums over all replicas of a list of tensors or IndexedSlices; the same values without a
    strategy.

    Not ReplicaContext.all_reduce: to be differentiable it looks for variables by name, and fails on those of
    other replicas.
    """
    if num_replicas() == 1:
        return values

    return tf.distribute.get_replica_context().merge_call(replica_sums.reduce, args=tuple(values))


def _merge_rows(gradient):
    """Makes the norm of a sparse gradient that of the dense one."""
    return replica_sums.merge_rows(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
