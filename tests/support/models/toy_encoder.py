"""A toy encoder in one file: joins eight frames to one vector."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.models import encoders, layers
from tfrecord_builder.audio import frontend

SUBSAMPLING = 8


def join_frames(config, fbank, num_frames, seed) -> encoders.Encoding:
    del seed
    fbank = layers.clear_padding(fbank, layers.sequence_mask(num_frames, tf.shape(fbank)[1]))
    fbank = tf.pad(fbank, [[0, 0], [0, -tf.shape(fbank)[1] % SUBSAMPLING], [0, 0]])
    joined = tf.reshape(fbank, [tf.shape(fbank)[0], -1, SUBSAMPLING * fbank.shape[2]])
    num_frames = frontend.num_subsampled_frames(num_frames, SUBSAMPLING)
    mask = layers.sequence_mask(num_frames, tf.shape(joined)[1])
    outputs = layers.dense(joined, config.encoder_units, "project")
    return encoders.Encoding(layers.clear_padding(outputs, mask), num_frames, mask)


ENCODER = encoders.Encoder(join_frames, SUBSAMPLING)
