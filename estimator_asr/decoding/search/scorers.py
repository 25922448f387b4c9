"""Scorers, such as n-gram models and hotwords, which add to the score of a prefix as the prefix grows.

Scores are natural logarithms, multiplied by the scorer's weight.
"""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf

from estimator_asr.experiment import back_off_arrays


class Scorer(Protocol):
    """A scorer of the tokens that may follow each prefix; it keeps a state for each prefix."""

    def start(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Returns the states of empty prefixes, int32 [batch]."""

    def extend(self, states: tf.Tensor, token_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores each token, int32 [batch, tokens], after each prefix; states are int32 [batch, width].

        Returns:
            Scores, float32 [batch, width, tokens], and the states after each token, int32 of the same shape.
        """

    def finish(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the scores of the end of the utterance, float32 [batch, width]."""


class TokenBonus:
    """A scorer that adds a constant bonus for each token, because language models favour short hypotheses."""

    def __init__(self, bonus: float):
        self._bonus = bonus

    def start(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Returns the only state, 0."""
        return tf.zeros([batch_size], tf.int32)

    def extend(self, states: tf.Tensor, token_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the same bonus for every token."""
        shape = [*tf.unstack(tf.shape(states)), tf.shape(token_ids)[1]]
        return tf.fill(shape, self._bonus), tf.zeros(shape, tf.int32)

    def finish(self, states: tf.Tensor) -> tf.Tensor:
        """Returns 0."""
        return tf.zeros(tf.shape(states))


class NgramScorer:
    """A scorer that adds weight * log p(token | state) from a back-off n-gram model.

    The state of a prefix is its longest suffix that is a context in the model.
    """

    def __init__(self, arrays: back_off_arrays.BackOffArrays, weight: float):
        """Stores the model as tensors; the weight may be a tensor."""
        self.context_length = arrays.order - 1  # maximum number of earlier tokens that affect a score
        self._weight = tf.convert_to_tensor(weight, tf.float32)
        self._keys = tf.convert_to_tensor(arrays.keys, tf.int64)
        self._back_off_weights = tf.convert_to_tensor(arrays.back_off_weights, tf.float32)
        self._back_off_states = tf.convert_to_tensor(arrays.back_off_states, tf.int32)
        self._end_log_probs = tf.convert_to_tensor(arrays.end_log_probs, tf.float32)
        self._start_state = tf.convert_to_tensor(arrays.start_state, tf.int32)
        # Each row is an n-gram: first the 1-grams in token order, then the others in key order.
        self._log_probs = tf.concat([arrays.unigram_log_probs, arrays.log_probs], 0)
        self._next_states = tf.concat([arrays.unigram_states, arrays.next_states], 0)
        self._num_tokens = tf.shape(arrays.unigram_states)[0]
        self._last_key = tf.shape(self._keys)[0] - 1

    def start(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Returns the states after <s>."""
        return tf.fill([batch_size], self._start_state)

    def extend(self, states: tf.Tensor, token_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns weighted log probabilities, and the states after the tokens."""
        contexts, weights = self._back_off(states)
        token_ids = token_ids[:, None, :]
        shape = [*tf.unstack(tf.shape(states)), tf.shape(token_ids)[2]]
        rows, scores = tf.broadcast_to(token_ids, shape), tf.broadcast_to(weights[-1][:, :, None], shape)
        if self.context_length:
            longer, exists = self._look_up(tf.stack(contexts), token_ids)
            for level in reversed(range(self.context_length)):  # the longest n-gram is set last, so it wins
                rows = tf.where(exists[level], longer[level], rows)
                scores = tf.where(exists[level], weights[level][:, :, None], scores)
        scores = self._weight * (scores + tf.gather(self._log_probs, rows))
        return scores, tf.gather(self._next_states, rows)

    def finish(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the weighted log probability of </s>."""
        return self._weight * tf.gather(self._end_log_probs, states)

    def _back_off(self, states):
        """Returns states and total weights after 0, 1, ... back-offs; the weights have one more entry."""
        contexts, weights = [], [tf.zeros(tf.shape(states))]
        for _ in range(self.context_length):
            contexts.append(states)
            weights.append(weights[-1] + tf.gather(self._back_off_weights, states))
            states = tf.gather(self._back_off_states, states)
        return contexts, weights

    def _look_up(self, contexts, token_ids):
        """Returns each n-gram's row and whether it exists, both [context_length, batch, width, tokens]."""
        num_tokens = tf.cast(self._num_tokens, tf.int64)
        keys = tf.cast(contexts, tf.int64)[..., None] * num_tokens + tf.cast(token_ids, tf.int64)
        places = tf.searchsorted(self._keys, tf.reshape(keys, [-1]))
        places = tf.reshape(tf.minimum(places, self._last_key), tf.shape(keys))
        return places + self._num_tokens, tf.equal(tf.gather(self._keys, places), keys)


def score_sequences(scorer: Scorer, ids: tf.Tensor, num_ids: tf.Tensor) -> tf.Tensor:
    """Returns a scorer's scores for whole sequences, including their ends, float32 [rows].

    `ids` is int32 [rows, length]; only the first num_ids, int32 [rows], of each row are scored.
    """
    rows, length = tf.unstack(tf.shape(ids))
    ids = tf.maximum(ids, 0)

    def step(i, states, total):
        scores, following = scorer.extend(states, ids[:, i : i + 1])
        is_real = (i < num_ids)[:, None]
        states = tf.where(is_real, following[:, :, 0], states)
        return i + 1, states, total + tf.where(is_real, scores[:, :, 0], 0.0)

    start = 0, scorer.start(rows)[:, None], tf.zeros([rows, 1])
    _, states, total = tf.while_loop(lambda i, *_: i < length, step, start)
    return tf.squeeze(total + scorer.finish(states), 1)
