"""A frozen pretrained encoder as part of feature extraction: log-mel in, vectors out.

A family of encoders is a file like whisper.py (encode, and resume for its upper blocks) and an entry in
FAMILIES.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.models import layers, whisper
from tfrecord_builder.audio import frontend, pretrained_encoder

FAMILIES = {"whisper": whisper}
SCOPE = "frozen_encoder"


def build(
    applied: pretrained_encoder.Applied, fbank: tf.Tensor, num_frames: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds the encoder under SCOPE; arguments and results as of `join`."""
    with tf.compat.v1.variable_scope(SCOPE, custom_getter=as_constant):
        return join(applied, fbank, num_frames)


def join(
    applied: pretrained_encoder.Applied, fbank: tf.Tensor, num_frames: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds the encoder as far as it is needed, with variables in the caller's scope.

    Args:
        applied: the encoder, and which blocks.
        fbank: float32 [batch, num_frames, num_mel_bins].
        num_frames: int32 [batch]; frames at or beyond it are ignored.

    Returns:
        float16 [batch, num_subsampled, applied.num_bins], the frames and then the outputs of each block, zero
        at or beyond the second: int32 [batch].
    """
    encoder = applied.encoder
    outputs, num_subsampled = FAMILIES[encoder.family].encode(encoder, fbank, num_frames, applied.layers)
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    stacked = stack(layers.clear_padding(fbank, mask), encoder.subsampling)
    joined = tf.cast(tf.concat([stacked, *outputs], axis=-1), tf.float16)
    mask = layers.sequence_mask(num_subsampled, tf.shape(joined)[1])
    return layers.clear_padding(joined, mask), num_subsampled


def as_constant(getter, *args, **kwargs):
    """Makes the variables of a scope constant: its custom_getter."""
    return getter(*args, **{**kwargs, "trainable": False})


def stack(fbank: tf.Tensor, factor: int) -> tf.Tensor:
    """Joins `factor` frames of [batch, num_frames, num_bins] into one, zeros after the last.

    Returns:
        Tensor [batch, ceil(num_frames / factor), factor x num_bins].
    """
    length, num_bins = tf.shape(fbank)[1], fbank.shape[-1]
    num_stacked = frontend.num_subsampled_frames(length, factor)
    padded = tf.pad(fbank, [[0, 0], [0, num_stacked * factor - length], [0, 0]])
    return tf.reshape(padded, [tf.shape(fbank)[0], num_stacked, factor * num_bins])
