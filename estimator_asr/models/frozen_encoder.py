"""A pretrained encoder: frozen in feature extraction, or the lower part of an encoder that is trained.

A family of encoders is a module like whisper.py and an entry in FAMILIES. Its `embed` computes the input of
the Transformer blocks, its `log_mel` the frames that are stored beside the blocks' outputs. The outputs are
read from the records that estimator_asr.encode wrote, or computed in the graph.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import encoders, layers, normalisation, pretrained_blocks, wav2vec2, whisper
from tfrecord_builder.audio import frontend, pretrained_encoder

FAMILIES = {"whisper": whisper, "hubert": wav2vec2, "wav2vec2": wav2vec2}
SCOPE = "frozen_encoder"  # variable scope of the encoder in feature extraction
LOWER_SCOPE = "pretrained"  # variable scope of the encoder below trained blocks
SUBSAMPLING = 2  # outputs of 20 ms are joined to 40 ms, for which the trained blocks take half the time


def build(
    applied: pretrained_encoder.Applied, fbank: tf.Tensor, num_frames: tf.Tensor, scope: str = SCOPE
) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds the encoder up to the highest block that is needed; its variables are not trained.

    Args:
        applied: the encoder, and the blocks whose outputs are returned.
        fbank: float32 [batch, num_frames, num_bins], from the frontend of the encoder.
        num_frames: int32 [batch]; frames at or beyond it are ignored.
        scope: scope of the variables, inside the caller's scope.

    Returns:
        Log-mel frames and then the outputs of each block, float16 [batch, num_outputs, applied.num_bins]; and
        the number of outputs, int32 [batch], at or beyond which they are zero.
    """
    encoder, family = applied.encoder, FAMILIES[applied.encoder.family]
    with tf.compat.v1.variable_scope(scope, custom_getter=layers.as_constant):
        hidden, num_outputs = family.embed(encoder, fbank, num_frames)
        mask = layers.sequence_mask(num_outputs, tf.shape(hidden)[1])
        outputs = pretrained_blocks.run(encoder, hidden, mask, applied.layers)
    log_mel, num_log_mel = family.log_mel(fbank, num_frames)
    is_frame = layers.sequence_mask(num_log_mel, tf.shape(log_mel)[1])
    stacked = stack(layers.clear_padding(log_mel, is_frame), encoder.subsampling)
    joined = layers.clear_padding(tf.concat([stacked, *outputs], axis=-1), mask)
    return tf.cast(joined, tf.float16), num_outputs


def stack(fbank: tf.Tensor, factor: int) -> tf.Tensor:
    """Joins every `factor` frames of [batch, num_frames, num_bins] into one; zeros follow the last frame.

    Returns:
        Tensor [batch, ceil(num_frames / factor), factor x num_bins].
    """
    length, num_bins = tf.shape(fbank)[1], fbank.shape[-1]
    num_stacked = frontend.num_subsampled_frames(length, factor)
    padded = tf.pad(fbank, [[0, 0], [0, num_stacked * factor - length], [0, 0]])
    return tf.reshape(padded, [tf.shape(fbank)[0], num_stacked, factor * num_bins])


def conformer_on_top(
    config: config_lib.AcousticConfig, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]
) -> encoders.Encoding:
    """Conformer blocks on pairs of outputs of the pretrained encoder; arguments as in encoders.Encoder.

    fbank holds the outputs of config.pretrained, or the features from which to compute them.
    Batch norm comes first, because the outputs differ in scale by orders of magnitude.
    """
    applied = _below_trained(config)
    vectors, num_frames = _read_or_encode(config.pretrained, applied, fbank, num_frames)
    mask = layers.sequence_mask(num_frames, tf.shape(vectors)[1])
    if not config.log_mel:
        vectors = vectors[..., -len(applied.layers) * applied.encoder.units :]
    if config.trainable_blocks:
        vectors = _add_trained_blocks(applied, vectors, mask)
    vectors = normalisation.batch_norm(vectors, mask, seed is not None, "input_norm")
    joined = stack(layers.clear_padding(vectors, mask), SUBSAMPLING)
    hidden = layers.layer_norm(layers.dense(joined, config.encoder_units, "project"))
    num_frames = frontend.num_subsampled_frames(num_frames, SUBSAMPLING)
    return encoders.run_blocks(config, encoders.conformer_block, hidden, num_frames, seed)


def _below_trained(config):
    """Returns the encoder with the stored blocks below the trained ones; records may hold higher blocks."""
    last = config.pretrained.encoder.layers - config.trainable_blocks
    frozen = tuple(layer for layer in config.pretrained.layers if layer <= last)
    return dataclasses.replace(config.pretrained, layers=frozen)


def _read_or_encode(stored, applied, fbank, num_frames):
    """Returns outputs, float [batch, num_frames, applied.num_bins], 0 at padding; and num_frames, int32."""
    dtype = fbank.dtype
    if fbank.shape[-1] == stored.num_bins:
        fbank = fbank[..., : applied.num_bins]
    else:
        fbank, num_frames = build(applied, fbank, num_frames, LOWER_SCOPE)
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    return layers.clear_padding(tf.cast(fbank, dtype), mask), num_frames


def _add_trained_blocks(applied, vectors, mask):
    """Runs the blocks after the last applied one, and appends the output of the last block."""
    encoder, last = applied.encoder, vectors[..., -applied.encoder.units :]
    with tf.compat.v1.variable_scope(LOWER_SCOPE):
        first = applied.layers[-1] + 1
        (upper,) = pretrained_blocks.run(encoder, last, mask, [encoder.layers], first)
    return tf.concat([vectors, upper], axis=-1)
