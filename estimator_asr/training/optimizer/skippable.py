"""Optimizers whose update can be skipped inside the graph, after the gradients are known.

The update cannot stand in a conditional, because that must not contain an all-reduce. So it always runs, and
a skipped one is the identity: zero gradients (from the caller), learning rate 0, decay rates 1.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf


class SkippableAdam(tf.compat.v1.train.AdamOptimizer):
    """Adam (Kingma and Ba 2015, algorithm 1), lazy for sparse gradients; skipped where is_applied is false.

    TensorFlow's v1 Adam decays the moments of all rows of a table in each step. Here a row without a gradient
    keeps its moments and its value, so the cost grows with the rows that occur and not with the table.
    """

    is_applied: Optional[tf.Tensor] = None  # bool []; None: always

    def _prepare(self):
        super()._prepare()
        if self.is_applied is not None:
            self._lr_t = tf.where(self.is_applied, self._lr_t, 0.0)
            self._beta1_t = tf.where(self.is_applied, self._beta1_t, 1.0)
            self._beta2_t = tf.where(self.is_applied, self._beta2_t, 1.0)

    def _resource_apply_sparse(self, grad, var, indices):
        """Called by the v1 Optimizer with unique indices."""
        beta1, beta2 = self._beta1_t, self._beta2_t
        beta1_power, beta2_power = self._get_beta_accumulators()
        rate = self._lr_t * tf.sqrt(1.0 - beta2_power) / (1.0 - beta1_power)
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        first_rows = beta1 * tf.gather(first, indices) + (1.0 - beta1) * grad
        second_rows = beta2 * tf.gather(second, indices) + (1.0 - beta2) * tf.square(grad)
        step = rate * first_rows / (tf.sqrt(second_rows) + self._epsilon_t)
        return tf.group(
            tf.raw_ops.ResourceScatterUpdate(resource=first.handle, indices=indices, updates=first_rows),
            tf.raw_ops.ResourceScatterUpdate(resource=second.handle, indices=indices, updates=second_rows),
            tf.raw_ops.ResourceScatterSub(resource=var.handle, indices=indices, updates=step),
        )


class SkippableMomentum(tf.compat.v1.train.MomentumOptimizer):
    """SGD with momentum; skipped where is_applied is false."""

    is_applied: Optional[tf.Tensor] = None  # bool []; None: always

    def _prepare(self):
        super()._prepare()
        if self.is_applied is not None:
            self._learning_rate_tensor = tf.where(self.is_applied, self._learning_rate_tensor, 0.0)
            self._momentum_tensor = tf.where(self.is_applied, self._momentum_tensor, 1.0)
