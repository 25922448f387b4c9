"""Adam that updates only the rows a step has gradients for.

The v1 Adam lets the moments of every row fade at every step, so the cost of an embedding table grows with the
table; here it grows with the rows that occur. A row that does not occur keeps its moments and its value.
"""

from __future__ import annotations

import tensorflow as tf


class LazyAdamOptimizer(tf.compat.v1.train.AdamOptimizer):
    """v1 Adam that updates, for sparse gradients, the rows that occur (Kingma and Ba 2015, algorithm 1)."""

    def _resource_apply_sparse(self, grad, var, indices):
        """Called by the v1 Optimizer with indices that are all different."""
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
