"""Losses and metrics as ratios of sums, such as loss per label, edits per label and blanks per frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from estimator_asr.models import replicas
from tfrecord_builder.data import vocabulary

_NO_ID = -2  # differs from all ids and from -1, which pads hypotheses


class Ratio(NamedTuple):
    """Numerator and denominator, both float32 []; each is summed over batches before the division."""

    numerator: tf.Tensor
    denominator: tf.Tensor

    def value(self) -> tf.Tensor:
        """Returns the ratio for this batch, float32 []; zero if the denominator is zero."""
        return tf.math.divide_no_nan(self.numerator, self.denominator)

    def metric(self):
        """Returns a (value, update) pair for an evaluation metric: the ratio of sums over all batches."""
        pairs = zip(*(tf.compat.v1.metrics.mean(number) for number in self))
        return tuple(tf.math.divide_no_nan(*means) for means in pairs)


class Losses(NamedTuple):
    """Sums of losses over this replica's batch, which can be added across batches and replicas."""

    total: tf.Tensor  # float32 [], weighted sum of the parts
    parts: dict[str, Ratio]  # loss per label of each part, keyed by tag
    num_labels: tf.Tensor  # float32 [], weighted sum of the parts' numbers of labels

    def average(self) -> tf.Tensor:
        """Returns the average loss per label in this replica's batch."""
        return tf.math.divide_no_nan(self.total, self.num_labels)

    def to_minimise(self) -> tf.Tensor:
        """Returns the loss whose mean over the replicas is the average loss per label in the whole batch.

        Replicas have different numbers of labels, so each divides its sum by the mean of these numbers.
        """
        (all_labels,) = replicas.sum_over_replicas([self.num_labels])
        return tf.math.divide_no_nan(self.total, all_labels / replicas.num_replicas())

    def ratios(self) -> dict[str, Ratio]:
        """Returns the averages of the loss (tag avg-loss) and of each of its parts, keyed by tag."""
        return {"avg-loss": Ratio(self.total, self.num_labels), **self.parts}


def edit_ratio(ids: tf.Tensor, num_ids: tf.Tensor, references: tf.Tensor, num_references: tf.Tensor) -> Ratio:
    """Returns the error rate of a batch: the number of edits per reference label.

    Ids and references are int32 [batch, max_ids]; positions at or beyond num_ids and num_references, int32
    [batch], are ignored. An unknown id in a reference stands for any text outside the vocabulary, so it
    matches nothing, not even an unknown id in the hypothesis.
    """
    width = tf.maximum(tf.shape(ids)[1], tf.shape(references)[1])
    hypotheses = _to_sparse(ids, num_ids, width)
    truths = _to_sparse(mark_unknown(references), num_references, width)
    edits = tf.edit_distance(hypotheses, truths, normalize=False)  # [batch]
    return Ratio(tf.reduce_sum(edits), tf.cast(tf.reduce_sum(num_references), tf.float32))


def mark_unknown(references: tf.Tensor) -> tf.Tensor:
    """Returns references (int32), with every unknown id replaced by an id that no hypothesis contains."""
    return tf.where(tf.equal(references, vocabulary.Vocabulary.unknown_id), _NO_ID, references)


def unknown_fraction(references: tf.Tensor, num_references: tf.Tensor) -> Ratio:
    """Returns the fraction of unknown ids in the references; edit_ratio cannot be lower than this."""
    is_id = tf.sequence_mask(num_references, tf.shape(references)[1])
    return fraction_of(tf.equal(references, vocabulary.Vocabulary.unknown_id), is_id)


def length_ratio(num_ids: tf.Tensor, num_references: tf.Tensor) -> Ratio:
    """Returns the ratio of hypothesis tokens to reference tokens; the arguments are int32 [batch]."""
    return Ratio(*(tf.cast(tf.reduce_sum(count), tf.float32) for count in (num_ids, num_references)))


def repeated_fraction(
    ids: tf.Tensor, num_ids: tf.Tensor, references: tf.Tensor, num_references: tf.Tensor
) -> Ratio:
    """Returns the fraction of utterances that share a hypothesis with an utterance whose reference differs.

    See edit_ratio for the arguments. Utterances without a reference do not count.
    """
    has_reference = num_references > 0
    is_other = ~_equal_rows(references, num_references) & has_reference[:, None] & has_reference[None, :]
    is_repeated = tf.reduce_any(_equal_rows(ids, num_ids) & is_other, axis=1)
    return fraction_of(is_repeated, has_reference)


def fraction_of(is_counted: tf.Tensor, is_valid: tf.Tensor) -> Ratio:
    """Returns the fraction of valid elements that are counted; both arguments are bool and of equal shape."""
    counts = (tf.reduce_sum(tf.cast(flag, tf.float32)) for flag in (is_counted & is_valid, is_valid))
    return Ratio(*counts)


def zero_fraction(gradients: Iterable[tuple]) -> Ratio:
    """Returns the fraction of exact zeros in the dense gradients of (gradient, variable) pairs.

    Sparse gradients (tf.IndexedSlices) are excluded, because most of their rows are always zero.
    """
    dense = [gradient for gradient, _ in gradients if isinstance(gradient, tf.Tensor)]
    zeros = [tf.reduce_sum(tf.cast(tf.equal(gradient, 0), tf.float32)) for gradient in dense]
    sizes = [tf.cast(tf.size(gradient), tf.float32) for gradient in dense]
    return Ratio(*(tf.add_n(counts) if counts else tf.constant(0.0) for counts in (zeros, sizes)))


def _equal_rows(ids, num_ids):
    """Returns bool [batch, batch]: True for pairs of rows with the same ids, ignoring padding."""
    counted = tf.where(tf.sequence_mask(num_ids, tf.shape(ids)[1]), ids, -1)
    return tf.reduce_all(tf.equal(counted[:, None], counted[None, :]), axis=-1)


@tf.xla.experimental.jit_scope(compile_ops=False)  # under XLA, tf.where may return a different number of rows
def _to_sparse(ids, num_ids, width):
    """Returns ids as a sparse tensor [batch, width]; tf.edit_distance needs two tensors of the same shape."""
    indices = tf.where(tf.sequence_mask(num_ids, tf.shape(ids)[1]))
    shape = tf.cast(tf.stack([tf.shape(ids)[0], width]), tf.int64)
    return tf.SparseTensor(indices, tf.gather_nd(ids, indices), shape)
