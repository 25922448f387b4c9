"""Dynamic loss scaling for gradients in float16 (Micikevicius et al., 2018, section 3.2).

Gradients below 6e-8 are zero in float16, so the loss is multiplied by a scale and the gradient divided by it.
If the scaled gradient overflows, the update is skipped and the scale is halved; after a number of updates
without overflow it is doubled. The constants are those of TensorFlow's mixed_precision.LossScaleOptimizer.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.models import replicas

INITIAL_SCALE = 2.0**15
GROWTH_UPDATES = 2000  # consecutive updates without overflow after which the scale doubles
FACTOR = 2.0


class LossScale:
    """The scale, in variables that checkpoints hold; equal on all replicas."""

    def __init__(self):
        with tf.compat.v1.variable_scope("loss_scale"):
            self._scale = replicas.get_variable("scale", [], INITIAL_SCALE)
            self._good_updates = replicas.get_variable("good_updates", [])
        self.value = tf.identity(self._scale)  # float32 []
        self._count = tf.identity(self._good_updates)

    def is_overflow(self, is_loss_finite: tf.Tensor, is_gradient_finite: tf.Tensor) -> tf.Tensor:
        """Returns bool []: only the gradient is non-finite, and the scale can be reduced."""
        return is_loss_finite & ~is_gradient_finite & (self.value > 1.0)

    def update(self, is_overflow: tf.Tensor, is_finite: tf.Tensor) -> tf.Operation:
        """Halves the scale after an overflow; counts finite updates and doubles it after GROWTH_UPDATES.

        Args:
            is_overflow: bool [], as of the method.
            is_finite: bool [], whether the weights are updated; if neither is true, nothing changes.
        """
        count = tf.where(is_overflow, 0.0, self._count + tf.cast(is_finite, tf.float32))
        is_full = count >= GROWTH_UPDATES
        doubled = tf.where(tf.math.is_finite(self.value * FACTOR), self.value * FACTOR, self.value)
        scale = tf.where(is_full, doubled, self.value)
        scale = tf.where(is_overflow, tf.maximum(self.value / FACTOR, 1.0), scale)
        return tf.group(self._scale.assign(scale), self._good_updates.assign(tf.where(is_full, 0.0, count)))
