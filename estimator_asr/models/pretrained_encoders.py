"""Encoders that stand on a pretrained one: batch norm, two of its frames joined, Conformer blocks.

The outputs of the pretrained encoder come from the records (estimator_asr.encode), or it runs in the graph.
Batch norm comes first because their values differ in scale by orders of magnitude. Two frames of 20 ms become
one because Conformer blocks are twice as fast at 40 ms.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import encoders, frozen_encoder, layers, normalisation
from tfrecord_builder.audio import frontend

SUBSAMPLING = 2
SCOPE = "pretrained"  # of the variables of the pretrained encoder


def whisper(
    config: config_lib.AcousticConfig, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]
) -> encoders.Encoding:
    """Conformer blocks on the outputs of Whisper's encoder; see encoders.Encoder for the arguments.

    fbank holds these outputs (config.pretrained.num_bins values), or the features that they are computed of.
    """
    vectors, num_frames = _read_or_encode(config.pretrained, fbank, num_frames)
    mask = layers.sequence_mask(num_frames, tf.shape(vectors)[1])
    if config.trainable_blocks:
        vectors = _add_trained_blocks(config.pretrained, vectors, mask)
    vectors = normalisation.batch_norm(vectors, mask, seed is not None, "input_norm")
    joined = frozen_encoder.stack(layers.clear_padding(vectors, mask), SUBSAMPLING)
    hidden = layers.layer_norm(layers.dense(joined, config.encoder_units, "project"))
    num_frames = frontend.num_subsampled_frames(num_frames, SUBSAMPLING)
    return encoders.run_blocks(config, encoders.conformer_block, hidden, num_frames, seed)


def _read_or_encode(applied, fbank, num_frames):
    """Returns float [batch, num_frames, applied.num_bins], zero at padding, and int32 [batch]."""
    dtype = fbank.dtype
    if fbank.shape[-1] != applied.num_bins:
        with tf.compat.v1.variable_scope(SCOPE, custom_getter=frozen_encoder.as_constant):
            fbank, num_frames = frozen_encoder.join(applied, fbank, num_frames)
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    return layers.clear_padding(tf.cast(fbank, dtype), mask), num_frames


def _add_trained_blocks(applied, vectors, mask):
    """Appends the output of the blocks after the last one that was applied."""
    encoder, first = applied.encoder, applied.layers[-1] + 1
    family = frozen_encoder.FAMILIES[encoder.family]
    with tf.compat.v1.variable_scope(SCOPE):
        upper = family.resume(encoder, vectors[..., -encoder.units :], mask, first)
    return tf.concat([vectors, upper], axis=-1)
