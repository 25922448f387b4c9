"""Greedy CTC decoding."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_asr.models.decoding import hypotheses


def greedy_ctc(
    config, logits: tf.Tensor, num_frames: tf.Tensor, scorers: Sequence = ()
) -> hypotheses.Hypotheses:
    """Best class of every frame, repeats merged, blanks dropped (Graves et al., 2006, section 3.2).

    The arguments are those of every decoder, see decoders.py; scorers have no effect. The only hypothesis has
    the log probability of its best path.
    """
    del config, scorers
    mask = tf.sequence_mask(num_frames, tf.shape(logits)[1])
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # [batch, num_frames]
    previous = tf.pad(best[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    is_token = mask & tf.not_equal(best, previous) & (best < logits.shape[-1] - 1)
    ids = tf.ragged.boolean_mask(best, is_token).to_tensor(default_value=-1)
    log_probs = tf.reduce_max(logits, axis=-1) - tf.reduce_logsumexp(logits, axis=-1)
    scores = tf.reduce_sum(tf.where(mask, log_probs, tf.zeros_like(log_probs)), axis=1)
    num_tokens = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
    return hypotheses.Hypotheses(ids[:, None], num_tokens[:, None], scores[:, None], scores[:, None])
