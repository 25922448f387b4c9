"""What both models give the model_fn: sums of losses over a batch, and figures for people."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.training import optimization, ratios


class Losses(NamedTuple):
    """Sums over the batch of this replica, float32 [] each."""

    total: tf.Tensor
    parts: dict[str, tf.Tensor]  # by tag; what the total is weighted from
    num_labels: tf.Tensor

    def average(self) -> tf.Tensor:
        """Returns the total per label of this replica."""
        return tf.math.divide_no_nan(self.total, self.num_labels)

    def to_minimise(self) -> tf.Tensor:
        """Returns the loss whose mean over the replicas is the total per label of the whole batch.

        Replicas hold different numbers of labels, so each one's sum is divided by their mean number.
        """
        (all_labels,) = optimization.sum_over_replicas([self.num_labels])
        return tf.math.divide_no_nan(self.total, all_labels / optimization.num_replicas())

    def ratios(self) -> dict[str, ratios.Ratio]:
        """Returns avg-loss and the parts, per label."""
        sums = {"avg-loss": self.total, **self.parts}
        return {tag: ratios.Ratio(value, self.num_labels) for tag, value in sums.items()}


class Forward(NamedTuple):
    """A model built for labels."""

    losses: Losses
    ratios: dict[str, ratios.Ratio]  # decoded error rate and other figures, by tag
    num_inputs: tf.Tensor  # int32 [], frames or tokens without padding
