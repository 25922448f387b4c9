"""Decoders by name, and the greedy decoder. To add a decoder, add a module here and an item to DECODERS.

A decoder takes a DecodeConfig, logits, num_frames and scorers, and returns Hypotheses. The logits are CTC's,
float32 [batch, num_frames, num_classes], with at least one frame; the blank is the last class. num_frames,
int32 [batch], is the number of frames to use in each utterance.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_asr.decoding.search import hypotheses, prefix_beam_search
from estimator_asr.decoding.search import scorers as scorers_lib
from estimator_asr.experiment import config as config_lib


def greedy(
    config: config_lib.DecodeConfig,
    logits: tf.Tensor,
    num_frames: tf.Tensor,
    scorers: Sequence[scorers_lib.Scorer] = (),
) -> hypotheses.Hypotheses:
    """Picks the best class in each frame, merges repeats, and drops blanks (Graves et al. 2006, section 3.2).

    Scorers have no effect. The score of the only hypothesis is the log probability of the best path.
    """
    del config, scorers
    ids, num_tokens = best_path(logits, num_frames)
    mask = tf.sequence_mask(num_frames, tf.shape(logits)[1])
    log_probs = tf.reduce_max(logits, axis=-1) - tf.reduce_logsumexp(logits, axis=-1)
    scores = tf.reduce_sum(tf.where(mask, log_probs, tf.zeros_like(log_probs)), axis=1)
    return hypotheses.Hypotheses(ids[:, None], num_tokens[:, None], scores[:, None], scores[:, None])


def best_path(logits: tf.Tensor, num_frames: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the best path's tokens, int32 [batch, max_tokens], padded with -1, and how many there are."""
    mask = tf.sequence_mask(num_frames, tf.shape(logits)[1])
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # [batch, num_frames]
    previous = tf.pad(best[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    is_token = mask & tf.not_equal(best, previous) & (best < logits.shape[-1] - 1)
    ids = tf.ragged.boolean_mask(best, is_token).to_tensor(default_value=-1)
    return ids, tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)


DECODERS = {"beam": prefix_beam_search.prefix_beam_search, "greedy": greedy}
