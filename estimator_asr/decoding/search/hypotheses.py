"""Hypotheses: the output of every decoder."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Hypotheses(NamedTuple):
    """The best token sequences of each utterance, best first.

    If an utterance has fewer than num_best hypotheses, the rest have no tokens and a score of -inf.
    """

    ids: tf.Tensor  # int32 [batch, num_best, max_tokens], padded with -1
    num_tokens: tf.Tensor  # int32 [batch, num_best]
    scores: tf.Tensor  # float32 [batch, num_best], acoustic score plus the scorers' scores
    acoustic_scores: tf.Tensor  # float32 [batch, num_best], log probability

    def reranked(self, added: tf.Tensor) -> Hypotheses:
        """Adds `added`, float32 [batch, num_best], to the scores; returns the hypotheses, best first."""
        scores, order = tf.math.top_k(self.scores + added, tf.shape(added)[1])
        fields = (self.ids, self.num_tokens, self.acoustic_scores)
        ids, num_tokens, acoustic_scores = (tf.gather(field, order, batch_dims=1) for field in fields)
        return Hypotheses(ids, num_tokens, scores, acoustic_scores)

    def joined(self, others: Hypotheses) -> Hypotheses:
        """Returns these hypotheses followed by `others`, which are hypotheses for the same utterances."""
        ids = join(self.ids, others.ids, -1)
        return Hypotheses(ids, *(tf.concat(pair, axis=1) for pair in zip(self[1:], others[1:])))

    def best(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the first hypotheses: ids, int32 [batch, max_tokens], and num_tokens, int32 [batch]."""
        return self.ids[:, 0], self.num_tokens[:, 0]


def join(first: tf.Tensor, second: tf.Tensor, padding) -> tf.Tensor:
    """Joins two tensors of shape [batch, num_best, length] along axis 1; their lengths may differ."""
    length = tf.maximum(tf.shape(first)[2], tf.shape(second)[2])
    padded = (
        tf.pad(tensor, [[0, 0], [0, 0], [0, length - tf.shape(tensor)[2]]], constant_values=padding)
        for tensor in (first, second)
    )
    return tf.concat(list(padded), axis=1)
