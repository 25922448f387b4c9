"""Ranks each utterance's transcripts in the graph; hypotheses with the same text are counted together."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class RankedTranscripts(NamedTuple):
    """The transcripts of each utterance, best first."""

    rows: tf.Tensor  # int32 [batch], index of the best hypothesis among batch x num_best rows
    transcripts: tf.Tensor  # string [batch, num_best], padded with ""
    scores: tf.Tensor  # float32 [batch, num_best], padded with the lowest float32


def rank(scores: tf.Tensor, transcripts: tf.Tensor) -> RankedTranscripts:
    """Orders transcripts by the sum of the probabilities of all hypotheses that have the same text.

    Args:
        scores: float32 [batch, num_best], log probability of each hypothesis; -inf or NaN if missing.
        transcripts: string [batch, num_best].
    """
    scores = tf.where(tf.math.is_nan(scores), -float("inf"), scores)
    is_same = tf.equal(transcripts[:, :, None], transcripts[:, None])  # [batch, num_best, num_best]
    num_best = tf.shape(scores)[1]
    terms = tf.where(is_same, scores[:, None], -float("inf"))
    # The best of several hypotheses with the same text represents all of them.
    leaders = tf.argmax(terms, axis=2, output_type=tf.int32)
    is_leader = tf.equal(leaders, tf.range(num_best))
    totals = tf.where(is_leader, tf.reduce_logsumexp(terms, axis=2), -float("inf"))
    totals, order = tf.math.top_k(totals, num_best)
    texts = tf.where(totals > -float("inf"), tf.gather(transcripts, order, batch_dims=1), "")
    # JSON has no infinity, so a server could not return -inf.
    scores = tf.maximum(totals, tf.float32.min)
    return RankedTranscripts(tf.range(tf.shape(scores)[0]) * num_best + order[:, 0], texts, scores)
