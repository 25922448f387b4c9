"""Figures that are ratios of sums (edits over labels, blanks over frames), for summaries and evaluation."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Ratio(NamedTuple):
    """Numerator and denominator, both float32 []; they are added up over batches before they are divided."""

    numerator: tf.Tensor
    denominator: tf.Tensor

    def value(self) -> tf.Tensor:
        """Returns the ratio of this batch, float32 []; zero where there is nothing to divide by."""
        return tf.math.divide_no_nan(self.numerator, self.denominator)

    def metric(self):
        """Returns the (value, update) pair of the ratio over an evaluation: both sums over all batches."""
        pairs = zip(*(tf.compat.v1.metrics.mean(number) for number in self))
        return tuple(tf.math.divide_no_nan(*means) for means in pairs)


def edit_ratio(ids: tf.Tensor, num_ids: tf.Tensor, references: tf.Tensor, num_references: tf.Tensor) -> Ratio:
    """Returns edits over reference length of a batch.

    Args:
        ids: int32 [batch, max_ids], hypotheses; ids at or beyond num_ids are ignored.
        num_ids: int32 [batch].
        references: int32 [batch, max_references].
        num_references: int32 [batch].
    """
    width = tf.maximum(tf.shape(ids)[1], tf.shape(references)[1])
    hypotheses, truths = _to_sparse(ids, num_ids, width), _to_sparse(references, num_references, width)
    edits = tf.edit_distance(hypotheses, truths, normalize=False)  # [batch]
    return Ratio(tf.reduce_sum(edits), tf.cast(tf.reduce_sum(num_references), tf.float32))


@tf.xla.experimental.jit_scope(compile_ops=False)  # tf.where in XLA gives rows of another number
def _to_sparse(ids, num_ids, width):
    """The ids that count as a sparse [batch, width]; both sides of tf.edit_distance need the same shape."""
    indices = tf.where(tf.sequence_mask(num_ids, tf.shape(ids)[1]))
    shape = tf.cast(tf.stack([tf.shape(ids)[0], width]), tf.int64)
    return tf.SparseTensor(indices, tf.gather_nd(ids, indices), shape)
