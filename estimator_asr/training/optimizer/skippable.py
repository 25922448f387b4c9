"""Optimizers whose update can be called off inside the graph, after the gradients are known.

A condition around the update would not do: an all-reduce may not stand inside one. So the update is made in
any case, and is the identity where it is called off: gradients 0 (who calls sees to that), rate 0, decays 1.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr.training.optimizer import lazy_adam


class GatedAdam(lazy_adam.LazyAdamOptimizer):
    """Adam that leaves weights, moments and powers of beta as they are where is_applied is false."""

    is_applied: Optional[tf.Tensor] = None  # bool []; None: always

    def _prepare(self):
        super()._prepare()
        if self.is_applied is not None:
            self._lr_t = tf.where(self.is_applied, self._lr_t, 0.0)
            self._beta1_t = tf.where(self.is_applied, self._beta1_t, 1.0)
            self._beta2_t = tf.where(self.is_applied, self._beta2_t, 1.0)


class GatedMomentum(tf.compat.v1.train.MomentumOptimizer):
    """Momentum that leaves weights and the last update as they are where is_applied is false."""

    is_applied: Optional[tf.Tensor] = None  # bool []; None: always

    def _prepare(self):
        super()._prepare()
        if self.is_applied is not None:
            self._learning_rate_tensor = tf.where(self.is_applied, self._learning_rate_tensor, 0.0)
            self._momentum_tensor = tf.where(self.is_applied, self._momentum_tensor, 1.0)
