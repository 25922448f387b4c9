"""Greedy CTC decoding, and the Hypotheses that every decoder returns.

A decoder is a function in a file beside this one and an entry in acoustic.DECODERS: it gets AcousticConfig,
CTC logits float32 [batch, num_frames, num_classes] with the blank as the last class, and num_frames int32
[batch]; frames at or beyond it are ignored.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Hypotheses(NamedTuple):
    """The best hypothesis of each utterance."""

    ids: tf.Tensor  # int32 [batch, max_tokens], -1 at and beyond num_tokens
    num_tokens: tf.Tensor  # int32 [batch]
    scores: tf.Tensor  # float32 [batch], log probability of the best path


def greedy_ctc(config, logits: tf.Tensor, num_frames: tf.Tensor) -> Hypotheses:
    """Best class of every frame, repeats merged, blanks dropped (Graves et al., 2006, section 3.2)."""
    del config
    mask = tf.sequence_mask(num_frames, tf.shape(logits)[1])
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # [batch, num_frames]
    previous = tf.pad(best[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    is_token = mask & tf.not_equal(best, previous) & (best < logits.shape[-1] - 1)
    ids = tf.ragged.boolean_mask(best, is_token)
    log_probs = tf.reduce_max(logits, axis=-1) - tf.reduce_logsumexp(logits, axis=-1)
    scores = tf.reduce_sum(tf.where(mask, log_probs, tf.zeros_like(log_probs)), axis=1)
    num_tokens = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
    return Hypotheses(ids.to_tensor(default_value=-1), num_tokens, scores)
