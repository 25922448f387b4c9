"""Hypotheses: what every decoder returns."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Hypotheses(NamedTuple):
    """The best token sequences of each utterance, best first.

    Where there are fewer than num_best, the others have no tokens and a score of -inf.
    """

    ids: tf.Tensor  # int32 [batch, num_best, max_tokens], -1 at and beyond num_tokens
    num_tokens: tf.Tensor  # int32 [batch, num_best]
    scores: tf.Tensor  # float32 [batch, num_best], acoustic score and what scorers add
    acoustic_scores: tf.Tensor  # float32 [batch, num_best], log probability

    def best(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids, int32 [batch, max_tokens], and num_tokens, int32 [batch], of the first."""
        return self.ids[:, 0], self.num_tokens[:, 0]
