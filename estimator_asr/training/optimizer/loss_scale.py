"""Dynamic loss scaling, for gradients that pass through float16 (Micikevicius et al., 2018, section 3.2).

Gradients below 6e-8 are zero in float16. The loss is multiplied so that they are not, and the gradient
divided by the same number. A scale at which the gradient overflows costs one update and is halved; after some
updates without, it is doubled. The numbers are those of TensorFlow's mixed_precision.LossScaleOptimizer.
"""

from __future__ import annotations

import tensorflow as tf

INITIAL_SCALE = 2.0**15
GROWTH_UPDATES = 2000  # updates in a row without overflow after which the scale doubles
FACTOR = 2.0


class LossScale:
    """The scale, in variables that a checkpoint holds; the same on all replicas."""

    def __init__(self):
        with tf.compat.v1.variable_scope("loss_scale"):
            self._scale = _get_variable("scale", INITIAL_SCALE)
            self._good_updates = _get_variable("good_updates", 0.0)
        self.value = tf.identity(self._scale)  # float32 []
        self._count = tf.identity(self._good_updates)

    def is_overflow(self, is_loss_finite: tf.Tensor, is_gradient_finite: tf.Tensor) -> tf.Tensor:
        """Returns bool []: the gradient alone is no number, and a lower scale may help."""
        return is_loss_finite & ~is_gradient_finite & (self.value > 1.0)

    def update(self, is_overflow: tf.Tensor, is_finite: tf.Tensor) -> tf.Operation:
        """Halves the scale after an overflow; counts finite updates and doubles it when there are enough.

        Args:
            is_overflow: bool [], by the method.
            is_finite: bool [], whether the update was made; where neither is true nothing changes.
        """
        count = tf.where(is_overflow, 0.0, self._count + tf.cast(is_finite, tf.float32))
        is_full = count >= GROWTH_UPDATES
        grown = tf.where(tf.math.is_finite(self.value * FACTOR), self.value * FACTOR, self.value)
        scale = tf.where(is_full, grown, self.value)
        scale = tf.where(is_overflow, tf.maximum(self.value / FACTOR, 1.0), scale)
        return tf.group(self._scale.assign(scale), self._good_updates.assign(tf.where(is_full, 0.0, count)))


def _get_variable(name: str, value: float) -> tf.Variable:
    """Each replica keeps its own, as all come to the same values."""
    return tf.compat.v1.get_variable(
        name,
        initializer=value,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
