"""A toy decoder in one file: token 1 for every utterance."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.decoding.search import hypotheses


def decode(config, logits, num_frames, scorers=()) -> hypotheses.Hypotheses:
    del config, num_frames, scorers
    count = tf.ones([tf.shape(logits)[0], 1], tf.int32)
    scores = tf.zeros(tf.shape(count))
    return hypotheses.Hypotheses(count[..., None], count, scores, scores)
