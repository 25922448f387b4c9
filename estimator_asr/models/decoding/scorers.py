"""Scorer: what adds to the score of a prefix while it grows, as an n-gram model or hotwords do.

Scores are natural logarithms, multiplied by the weight of the scorer.
"""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf


class Scorer(Protocol):
    """State of each prefix, and what the next token adds."""

    def start(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Returns the states of empty prefixes, int32 [batch]."""

    def extend(self, states: tf.Tensor, token_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores each token after each prefix.

        Args:
            states: int32 [batch, width].
            token_ids: int32 [batch, tokens].

        Returns:
            float32 [batch, width, tokens] and the states after the token, int32 of the same shape.
        """

    def finish(self, states: tf.Tensor) -> tf.Tensor:
        """Returns what the end of the utterance adds, float32 [batch, width]."""


class TokenBonus:
    """Adds the same for each token: language models favour short hypotheses."""

    def __init__(self, bonus: float):
        self._bonus = bonus

    def start(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Returns the only state."""
        return tf.zeros([batch_size], tf.int32)

    def extend(self, states: tf.Tensor, token_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the bonus, whatever the token is."""
        shape = [*tf.unstack(tf.shape(states)), tf.shape(token_ids)[1]]
        return tf.fill(shape, self._bonus), tf.zeros(shape, tf.int32)

    def finish(self, states: tf.Tensor) -> tf.Tensor:
        """Returns 0."""
        return tf.zeros(tf.shape(states))
