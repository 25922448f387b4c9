"""One optimiser path for both models: gradients, exact global-norm clipping, update; with or without a
strategy.

Under a strategy a v1 optimizer divides gradients by the number of replicas and sums them when it applies
them. Clipping needs the norm of the whole gradient, so the sum is made first, clipped, and applied as it is.

A step whose loss or gradient is no number changes nothing but the global step, on all replicas alike.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr import estimator_api
from estimator_asr.models import normalisation, replicas
from estimator_asr.training.optimizer import loss_scale, replica_sums, skippable

num_replicas = replicas.num_replicas


class Update(NamedTuple):
    """What a training step does and shows."""

    train_op: tf.Operation
    number: tf.Tensor  # int64 [], the global step before the update
    loss: tf.Tensor  # float32 [], the mean over all replicas of what is minimised
    gradients: tuple  # of (gradient, variable), summed over all replicas, before clipping
    gradient_norm: tf.Tensor  # float32 [], global norm of them
    # bool []: loss and gradients of all replicas are numbers, or too large for float16 alone
    is_finite: tf.Tensor
    num_parameters: int
    scalars: dict[str, tf.Tensor]  # float32 [] each, what else is worth showing, by tag
    hooks: list[estimator_api.SessionRunHook]  # that the update needs


class Sums(NamedTuple):
    """Over all replicas.

    Attributes:
        gradients: tensors or IndexedSlices; an index may occur several times.
        divisor: float32 [], the gradients are so many times too large; None: they are not.
        loss: float32 [].
        averages: pairs of a moving average and what is added to it, of this replica.
    """

    gradients: list
    divisor: Optional[tf.Tensor]
    loss: tf.Tensor
    averages: list


class Applied(NamedTuple):
    """An update of the weights, and what decides about it."""

    op: tf.Operation
    gradients: list  # as of Sums, each index once, divided by the divisor
    norm: tf.Tensor  # float32 []
    is_overflow: tf.Tensor  # bool []
    is_finite: tf.Tensor  # bool []


def build_optimizer(
    config: config_lib.OptimizerConfig, learning_rate: tf.Tensor
) -> tf.compat.v1.train.Optimizer:
    """Returns the v1 optimizer of the config."""
    if config.optimizer == "adam":
        return skippable.GatedAdam(learning_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon)
    return skippable.GatedMomentum(learning_rate, config.momentum)


def build_loss_scale(precision: str) -> Optional[loss_scale.LossScale]:
    """Returns the loss scale that the precision needs: one for float16, else None."""
    return loss_scale.LossScale() if precision == "float16" else None


def minimize(
    loss: tf.Tensor,
    optimizer: tf.compat.v1.train.Optimizer,
    clip_norm: float,
    global_step: tf.Variable,
    scale: Optional[loss_scale.LossScale] = None,
) -> Update:
    """Builds one update that also brings in the moving averages of batch norm.

    Args:
        loss: float32 [], of this replica; the mean over the replicas is minimised.
        optimizer: a v1 optimizer (under a strategy others sum where these average).
        clip_norm: largest global norm of the gradient; 0 leaves it as it is.
        global_step: raised by one.
        scale: of the loss, or None.
    """
    gradients, variables = compute_gradients(loss, optimizer, scale)
    *gradients, total = sum_over_replicas([*gradients, loss])
    number = tf.identity(global_step)
    update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    sums = Sums(gradients, scale and scale.value, total, normalisation.pending_updates())
    with tf.control_dependencies([*update_ops, number]):
        applied = apply(sums, variables, optimizer, clip_norm, global_step, scale)
    return Update(
        applied.op,
        number,
        total / replicas.num_replicas(),
        tuple(zip(applied.gradients, variables)),
        applied.norm,
        applied.is_finite | applied.is_overflow,
        count_parameters(variables),
        {} if scale is None else {"loss-scale": scale.value},
        [],
    )


def compute_gradients(
    loss: tf.Tensor, optimizer: tf.compat.v1.train.Optimizer, scale: Optional[loss_scale.LossScale]
) -> tuple[list, list]:
    """Returns this replica's gradients, times the scale, over the number of replicas; and the variables."""
    scaled = loss if scale is None else loss * scale.value
    pairs = [pair for pair in optimizer.compute_gradients(scaled) if pair[0] is not None]
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]


def apply(
    sums: Sums,
    variables: list,
    optimizer: tf.compat.v1.train.Optimizer,
    clip_norm: float,
    global_step: tf.Variable,
    scale: Optional[loss_scale.LossScale],
) -> Applied:
    """Builds the update of the variables, the moving averages, the loss scale and the global step.

    One multiplication divides, clips and calls off.
    """
    share = 1.0 if sums.divisor is None else tf.math.divide_no_nan(1.0, sums.divisor)
    gradients = [merge_rows(gradient) for gradient in sums.gradients]
    norm = tf.linalg.global_norm(gradients) * share
    is_loss_finite, is_gradient_finite = tf.math.is_finite(sums.loss), tf.math.is_finite(norm)
    is_finite = is_loss_finite & is_gradient_finite
    is_overflow = scale.is_overflow(is_loss_finite, is_gradient_finite) if scale else tf.constant(False)
    factor = tf.where(is_finite, _clip_factor(norm, clip_norm) * share, 0.0)
    pairs = [(_multiply_no_nan(gradient, factor), v) for gradient, v in zip(gradients, variables)]
    optimizer.is_applied = is_finite
    others = _add_averages(sums.averages, is_finite)
    others += [scale.update(is_overflow, is_finite)] if scale else []
    with tf.control_dependencies(others):
        op = replica_sums.apply(optimizer, pairs, global_step)
    return Applied(op, [multiply(gradient, share) for gradient in gradients], norm, is_overflow, is_finite)


def sum_over_replicas(values: list) -> list:
    """Returns the sums over all replicas of a list of tensors or IndexedSlices; the same values without a
    strategy.
    """
    if replicas.num_replicas() == 1:
        return values
    return tf.distribute.get_replica_context().merge_call(replica_sums.reduce, args=tuple(values))


def count_parameters(variables: list) -> int:
    """Returns how many numbers are trained."""
    return sum(variable.shape.num_elements() for variable in variables)


def _add_averages(averages, is_finite):
    weight = tf.cast(is_finite, tf.float32)
    return [average.assign_add(tf.math.multiply_no_nan(change, weight)) for average, change in averages]


def _clip_factor(norm, clip_norm):
    return clip_norm / tf.maximum(norm, clip_norm) if clip_norm else tf.ones([])


def merge_rows(gradient):
    """Makes the norm of a sparse gradient that of the dense one."""
    return replica_sums.merge_rows(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def multiply(gradient, factor):
    """Returns a gradient (tensor or IndexedSlices) times a number."""
    if isinstance(factor, float) and factor == 1.0:
        return gradient
    return _map_values(lambda values: values * factor, gradient)


def _multiply_no_nan(gradient, factor):
    """Where the factor is zero the product is, whatever the gradient."""
    return _map_values(lambda values: tf.math.multiply_no_nan(values, factor), gradient)


def _map_values(function, gradient):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)
