"""Weight updates with or without a strategy: gradients, clipping by the exact global norm, and optimizer.

Clipping needs the norm of the whole gradient. Under a strategy, gradients are therefore divided by the number
of replicas, summed over all replicas and clipped; then each replica applies the gradients to its own copy of
the weights.

A step with a non-finite loss or gradient changes only the global step (after an overflow, also the loss
scale), on all replicas.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.models import normalisation, replicas
from estimator_asr.training.optimizer import replica_sums, skippable

INITIAL_SCALE = 2.0**15
GROWTH_UPDATES = 2000  # the loss scale doubles after this many updates without overflow
FACTOR = 2.0


class TrainingUpdate(NamedTuple):
    """A training step and its metrics.

    `is_finite` is false if the loss or gradients of any replica are NaN or Inf. An overflow that a lower loss
    scale can prevent counts as finite.
    """

    train_op: tf.Operation  # runs the step
    number: tf.Tensor  # int64 [], global step before the update
    loss: tf.Tensor  # float32 [], the minimised loss, averaged over all replicas
    gradients: tuple  # (gradient, variable) pairs, summed over all replicas, before clipping
    gradient_norm: tf.Tensor  # float32 [], global norm of the gradients
    is_finite: tf.Tensor  # bool []
    scalars: dict[str, tf.Tensor]  # float32 [] each, additional metrics, keyed by tag
    hooks: list[estimator_api.SessionRunHook]  # hooks that must run with train_op

    @property
    def num_parameters(self) -> int:
        """Number of trained weights."""
        return sum(variable.shape.num_elements() for _, variable in self.gradients)


def build_optimizer(
    config: training_config.OptimizerConfig, learning_rate: tf.Tensor, **rates: skippable.RateOf
) -> skippable.Optimizer:
    """Returns the optimizer that the config selects; `rates` may contain rate_of (see skippable.RateOf)."""
    if config.optimizer == "adam":
        betas = config.adam_beta1, config.adam_beta2
        return skippable.Adam(learning_rate, *betas, config.adam_epsilon, **rates)
    return skippable.Momentum(learning_rate, config.momentum, **rates)


class LossScale:
    """Dynamic loss scale for float16 gradients (Micikevicius et al., 2018, section 3.2).

    Gradients below 6e-8 become zero in float16, so the loss is multiplied by a scale, and its gradients are
    divided by the scale. If a scaled gradient overflows, the update is skipped and the scale is halved; after
    GROWTH_UPDATES updates without overflow, the scale is doubled. The constants are those of TensorFlow's
    LossScaleOptimizer. The scale is stored in checkpoints and is the same on all replicas.
    """

    def __init__(self):
        with tf.compat.v1.variable_scope("loss_scale"):
            self._scale = replicas.get_variable("scale", [], INITIAL_SCALE)
            self._good_updates = replicas.get_variable("good_updates", [])
        self.value = tf.identity(self._scale)  # float32 []

    def is_overflow(self, is_loss_finite: tf.Tensor, is_gradient_finite: tf.Tensor) -> tf.Tensor:
        """Returns bool [], true if only the gradient is non-finite and the scale can still be reduced."""
        return is_loss_finite & ~is_gradient_finite & (self.value > 1.0)

    def update(self, is_overflow: tf.Tensor, is_finite: tf.Tensor) -> tf.Operation:
        """Halves, doubles or keeps the scale; if both arguments (bool []) are false, nothing changes."""
        count = tf.where(is_overflow, 0.0, self._good_updates + tf.cast(is_finite, tf.float32))
        is_full = count >= GROWTH_UPDATES
        doubled = tf.where(tf.math.is_finite(self.value * FACTOR), self.value * FACTOR, self.value)
        scale = tf.where(is_full, doubled, self.value)
        scale = tf.where(is_overflow, tf.maximum(self.value / FACTOR, 1.0), scale)
        return tf.group(self._scale.assign(scale), self._good_updates.assign(tf.where(is_full, 0.0, count)))


@dataclasses.dataclass(frozen=True)
class Minimizer:
    """An optimizer that minimises a loss averaged over the replicas, with clipping and loss scaling."""

    optimizer: skippable.Optimizer
    clip_norm: float  # maximum global norm of the gradients; 0 disables clipping
    global_step: tf.Variable  # incremented by every update
    scale: Optional[LossScale] = None

    @property
    def scalars(self) -> dict[str, tf.Tensor]:
        """Metrics of an update, keyed by tag."""
        return {"loss-scale": self.scale.value} if self.scale else {}

    def minimize(self, loss: tf.Tensor) -> TrainingUpdate:
        """Returns the update of the weights and batch norm's averages for this replica's loss, float32 []."""
        gradients, variables = self.compute_gradients(loss)
        *gradients, total = sum_over_replicas([*gradients, loss])
        number = tf.identity(self.global_step)
        update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies([*update_ops, number]):
            averages = normalisation.pending_updates()
            divisor = self.scale and self.scale.value
            applied = self.apply(list(zip(gradients, variables)), total, averages, divisor)
        train_op, gradients, norm, is_finite = applied
        pairs, mean = tuple(zip(gradients, variables)), total / replicas.num_replicas()
        return TrainingUpdate(train_op, number, mean, pairs, norm, is_finite, self.scalars, [])

    def compute_gradients(self, loss: tf.Tensor) -> tuple[list, list]:
        """Returns this replica's gradients, multiplied by scale / number of replicas, and the variables."""
        scaled = loss * self.scale.value if self.scale else loss
        mean = multiply(scaled, 1.0 / replicas.num_replicas())
        variables = tf.compat.v1.trainable_variables()
        pairs = [pair for pair in zip(tf.gradients(mean, variables), variables) if pair[0] is not None]
        return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]

    # XLA would recompile for every number of rows, for no gain, because Adam is already a single kernel.
    @tf.xla.experimental.jit_scope(compile_ops=False)
    def apply(
        self, pairs: list, loss: tf.Tensor, averages: list, divisor: Optional[tf.Tensor]
    ) -> tuple[tf.Operation, list, tf.Tensor, tf.Tensor]:
        """Builds the update of variables, moving averages, loss scale and global step.

        A single multiplication divides the gradients, clips them, and zeroes them if the update is skipped.

        Args:
            pairs: (gradient, variable) pairs; gradients are summed over all replicas, and may repeat indices.
            loss: float32 [], summed over all replicas.
            averages: (moving average, increment) pairs of this replica.
            divisor: number by which to divide the gradients, float32 []; None means 1.

        Returns:
            The update operation, the divided gradients (with unique indices), their global norm, and
            is_finite as in TrainingUpdate.
        """
        quotient = 1.0 if divisor is None else tf.math.divide_no_nan(1.0, divisor)
        gradients = [replica_sums.merge_rows(gradient) for gradient, _ in pairs]
        norm = tf.linalg.global_norm(gradients) * quotient
        is_loss_finite, is_gradient_finite = tf.math.is_finite(loss), tf.math.is_finite(norm)
        is_finite, is_overflow = is_loss_finite & is_gradient_finite, tf.constant(False)
        clipping = self.clip_norm / tf.maximum(norm, self.clip_norm) if self.clip_norm else tf.ones([])
        factor = tf.where(is_finite, clipping * quotient, 0.0)
        weight = tf.cast(is_finite, tf.float32)
        before = [average.assign_add(tf.math.multiply_no_nan(change, weight)) for average, change in averages]
        if self.scale:
            is_overflow = self.scale.is_overflow(is_loss_finite, is_gradient_finite)
            before.append(self.scale.update(is_overflow, is_finite))
        scaled = [
            _map_values(gradient, lambda values: tf.math.multiply_no_nan(values, factor))
            for gradient in gradients
        ]
        with tf.control_dependencies(before):
            updated = self.optimizer.apply(list(zip(scaled, [v for _, v in pairs])), is_finite)
        with tf.control_dependencies([updated]):
            op = tf.group(self.global_step.assign_add(1))
        divided = [multiply(gradient, quotient) for gradient in gradients]
        return op, divided, norm, is_finite | is_overflow


def sum_over_replicas(values: list) -> list:
    """Sums each tensor or IndexedSlices over all replicas; returns `values` if there is no strategy."""
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
