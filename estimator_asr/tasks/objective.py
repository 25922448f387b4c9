"""Sums of losses over a batch, and the training step as hooks see it."""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from estimator_asr.models import replicas
from estimator_asr.tasks import metrics


class Losses(NamedTuple):
    """Sums over the batch of this replica.

    Each term of the total is counted in its divisor, so that sums over batches and replicas give the average.

    Attributes:
        total: float32 [], the sum of the parts, each times its weight.
        parts: loss over labels of each part, by tag.
        num_labels: float32 [], the labels of the parts, each times its weight.
    """

    total: tf.Tensor
    parts: dict[str, metrics.Ratio]
    num_labels: tf.Tensor

    def average(self) -> tf.Tensor:
        """Returns the total per label of this replica."""
        return tf.math.divide_no_nan(self.total, self.num_labels)

    def to_minimise(self) -> tf.Tensor:
        """Returns the loss whose mean over the replicas is the total per label of the whole batch.

        Replicas have different numbers of labels, so each sum is divided by their mean number.
        """
        (all_labels,) = replicas.sum_over_replicas([self.num_labels])
        return tf.math.divide_no_nan(self.total, all_labels / replicas.num_replicas())

    def ratios(self) -> dict[str, metrics.Ratio]:
        """Returns avg-loss and the parts, per label."""
        return {"avg-loss": metrics.Ratio(self.total, self.num_labels), **self.parts}


def shown_loss(loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss for the EstimatorSpec: infinity for NaN, at which Estimator stops before our hooks."""
    return tf.where(tf.math.is_finite(loss), loss, math.inf)


class Step(NamedTuple):
    """Tensors of a training step for its hooks, of the first replica unless noted.

    Attributes:
        number: int64 [], number of steps before this one.
        features, labels: as the model_fn receives them.
        loss: float32 [], minimised; mean of all replicas.
        is_finite: bool [], whether loss and gradients of all replicas are finite, or overflow float16 only.
            Where it is false, the update is skipped.
        gradients: pairs of gradient (tf.Tensor or tf.IndexedSlices, summed over all replicas, not clipped)
            and variable.
        gradient_norm: float32 [], of all replicas, before clipping.
        scalars: float32 [] each, by their tag in TensorBoard.
        num_inputs: int32 [], frames or tokens without padding.
        wait: float64 [], seconds of waiting for the features.
        num_parameters: number of trainable parameters.
    """

    number: tf.Tensor
    features: dict[str, tf.Tensor]
    labels: dict[str, tf.Tensor]
    loss: tf.Tensor
    is_finite: tf.Tensor
    gradients: tuple
    gradient_norm: tf.Tensor
    scalars: dict[str, tf.Tensor]
    num_inputs: tf.Tensor
    wait: tf.Tensor
    num_parameters: int
