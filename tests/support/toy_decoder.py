"""A toy decoder in one file: token 1 for every utterance."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.models import decoders


def decode(config, logits, num_frames) -> decoders.Hypotheses:
    del config, num_frames
    count = tf.ones(tf.shape(logits)[:1], tf.int32)
    return decoders.Hypotheses(count[:, None], count, tf.zeros(tf.shape(logits)[:1]))
