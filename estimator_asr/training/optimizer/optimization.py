"""Weight update: gradients, clipping by exact global norm, optimizer; with or without a strategy.

Clipping needs the norm of the whole gradient, so under a strategy gradients are divided by the number of
replicas, summed over them, clipped, and then applied by each replica to its own copy of the weights.

A step with a non-finite loss or gradient changes only the global step, on all replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

import tensorflow as tf

from estimator_asr.estimator import estimator_api
from estimator_asr.experiment import config as config_lib
from estimator_asr.models import normalisation, replicas
from estimator_asr.training.optimizer import replica_sums, skippable

if TYPE_CHECKING:
    from estimator_asr.training.optimizer import loss_scale


class Update(NamedTuple):
    """A training step and its metrics.

    `is_finite` is false if loss or gradients of a replica are NaN or Inf. An overflow that a lower loss scale
    cures counts as finite.
    """

    train_op: tf.Operation  # runs the step
    number: tf.Tensor  # int64 [], global step before the update
    loss: tf.Tensor  # float32 [], mean over all replicas of the loss that is minimised
    gradients: tuple  # pairs of gradient and variable; sums over all replicas, before clipping
    gradient_norm: tf.Tensor  # float32 [], their global norm
    is_finite: tf.Tensor  # bool []
    scalars: dict[str, tf.Tensor]  # float32 [] each, further metrics by tag
    hooks: list[estimator_api.SessionRunHook]  # that the update needs

    @property
    def num_parameters(self) -> int:
        """Number of trained values."""
        return sum(variable.shape.num_elements() for _, variable in self.gradients)


def build_optimizer(
    config: config_lib.OptimizerConfig, learning_rate: tf.Tensor, **rates: skippable.RateOf
) -> skippable.Optimizer:
    """Returns the optimizer of the config; `rate_of` is as in skippable."""
    if config.optimizer == "adam":
        betas = config.adam_beta1, config.adam_beta2
        return skippable.Adam(learning_rate, *betas, config.adam_epsilon, **rates)
    return skippable.Momentum(learning_rate, config.momentum, **rates)


def build_loss_scale(precision: str) -> Optional[loss_scale.LossScale]:
    """Returns the loss scale of a precision: one for float16, otherwise None."""
    if precision != "float16":
        return None
    from estimator_asr.training.optimizer import loss_scale  # only where a flag asks for it

    return loss_scale.LossScale()


def minimize(
    loss: tf.Tensor,
    optimizer: skippable.Optimizer,
    clip_norm: float,
    global_step: tf.Variable,
    scale: Optional[loss_scale.LossScale] = None,
) -> Update:
    """Builds one update of the weights and of the moving averages of batch norm.

    Args:
        loss: float32 [], of this replica; the mean over the replicas is minimised.
        optimizer: as build_optimizer returns it.
        clip_norm: maximum global norm of the gradient; 0 turns clipping off.
        global_step: incremented by one.
        scale: loss scale, or None.
    """
    gradients, variables = compute_gradients(loss, scale)
    *gradients, total = sum_over_replicas([*gradients, loss])
    number = tf.identity(global_step)
    update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    pairs, divisor = list(zip(gradients, variables)), scale and scale.value
    with tf.control_dependencies([*update_ops, number]):
        averages = normalisation.pending_updates()
        applied = apply(pairs, divisor, total, averages, optimizer, clip_norm, global_step, scale)
    train_op, gradients, norm, is_finite = applied
    return Update(
        train_op,
        number,
        total / replicas.num_replicas(),
        tuple(zip(gradients, variables)),
        norm,
        is_finite,
        {} if scale is None else {"loss-scale": scale.value},
        [],
    )


def compute_gradients(loss: tf.Tensor, scale: Optional[loss_scale.LossScale]) -> tuple[list, list]:
    """Returns gradients of this replica, times the scale, over the number of replicas; and variables."""
    scaled = loss if scale is None else loss * scale.value
    mean = multiply(scaled, 1.0 / replicas.num_replicas())
    variables = tf.compat.v1.trainable_variables()
    pairs = [pair for pair in zip(tf.gradients(mean, variables), variables) if pair[0] is not None]
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]


@tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would compile each number of rows; Adam is one kernel
def apply(
    pairs: list,
    divisor: Optional[tf.Tensor],
    loss: tf.Tensor,
    averages: list,
    optimizer: skippable.Optimizer,
    clip_norm: float,
    global_step: tf.Variable,
    scale: Optional[loss_scale.LossScale],
) -> tuple[tf.Operation, list, tf.Tensor, tf.Tensor]:
    """Builds the update of variables, moving averages, loss scale and global step.

    A single multiplication divides, clips and skips.

    Args:
        pairs: (gradient, variable); sums over all replicas, in which indices may be repeated.
        divisor: of the gradients, float32 []; None for 1.
        loss: float32 [], sum over all replicas.
        averages: pairs of a moving average and its increment, of this replica.
        optimizer, clip_norm, global_step, scale: as for minimize.

    Returns:
        Operation; divided gradients with unique indices; their global norm; is_finite as in Update.
    """
    quotient = 1.0 if divisor is None else tf.math.divide_no_nan(1.0, divisor)
    gradients = [replica_sums.merge_rows(gradient) for gradient, _ in pairs]
    norm = tf.linalg.global_norm(gradients) * quotient
    is_loss_finite, is_gradient_finite = tf.math.is_finite(loss), tf.math.is_finite(norm)
    is_finite = is_loss_finite & is_gradient_finite
    is_overflow = scale.is_overflow(is_loss_finite, is_gradient_finite) if scale else tf.constant(False)
    clipping = clip_norm / tf.maximum(norm, clip_norm) if clip_norm else tf.ones([])
    factor = tf.where(is_finite, clipping * quotient, 0.0)
    weight = tf.cast(is_finite, tf.float32)
    others = [average.assign_add(tf.math.multiply_no_nan(change, weight)) for average, change in averages]
    others += [scale.update(is_overflow, is_finite)] if scale else []
    scaled = [
        _map_values(gradient, lambda values: tf.math.multiply_no_nan(values, factor))
        for gradient in gradients
    ]
    with tf.control_dependencies(others):
        updated = optimizer.apply(list(zip(scaled, [v for _, v in pairs])), is_finite)
    with tf.control_dependencies([updated]):
        op = tf.group(global_step.assign_add(1))
    divided = [multiply(gradient, quotient) for gradient in gradients]
    return op, divided, norm, is_finite | is_overflow


def sum_over_replicas(values: list) -> list:
    """Returns the sums of tensors or IndexedSlices over all replicas; without a strategy, the values."""
    if replicas.num_replicas() == 1:
        return values
    return tf.distribute.get_replica_context().merge_call(replica_sums.reduce, args=tuple(values))


def multiply(gradient, factor):
    """Returns a gradient (tensor or IndexedSlices) multiplied by a number."""
    if isinstance(factor, float) and factor == 1.0:
        return gradient
    return _map_values(gradient, lambda values: values * factor)


def _map_values(gradient, function):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)
