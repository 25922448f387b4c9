"""A pretrained encoder: frozen in feature extraction, or the lower part of an encoder that is trained.

A family of encoders is a file like whisper.py (embed: all before the Transformer blocks; log_mel: what is
stored beside their outputs) and an entry in FAMILIES. The outputs of the pretrained encoder come from the
records (estimator_asr.encode), or it runs in the graph.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import encoders, layers, normalisation, pretrained_blocks, wav2vec2, whisper
from tfrecord_builder.audio import frontend, pretrained_encoder

FAMILIES = {"whisper": whisper, "hubert": wav2vec2, "wav2vec2": wav2vec2}
SCOPE = "frozen_encoder"  # of the variables, as part of feature extraction
LOWER_SCOPE = "pretrained"  # as the lower part of an encoder
SUBSAMPLING = 2  # of the encoder above: blocks are twice as fast at 40 ms as at 20 ms


def build(
    applied: pretrained_encoder.Applied, fbank: tf.Tensor, num_frames: tf.Tensor, scope: str = SCOPE
) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds the encoder as far as it is needed, with constant variables under a scope.

    Args:
        applied: the encoder, and which blocks.
        fbank: float32 [batch, num_frames, num_bins], of the frontend of the encoder.
        num_frames: int32 [batch]; frames at or beyond it are ignored.
        scope: of the variables, within that of the caller.

    Returns:
        float16 [batch, num_outputs, applied.num_bins], log-mel frames and then the outputs of each block,
        zero at or beyond the second: int32 [batch].
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
    """Joins `factor` frames of [batch, num_frames, num_bins] into one, zeros after the last.

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
    """Joins two outputs of the pretrained encoder, then Conformer blocks; arguments as of encoders.Encoder.

    fbank holds the outputs of config.pretrained, or the features that they are computed of.
    Batch norm comes first because their values differ in scale by orders of magnitude.
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
    """Returns the encoder with those blocks that the model reads and does not train: data may hold others."""
    last = config.pretrained.encoder.layers - config.trainable_blocks
    read = tuple(layer for layer in config.pretrained.layers if layer <= last)
    return dataclasses.replace(config.pretrained, layers=read)


def _read_or_encode(stored, applied, fbank, num_frames):
    """Returns float [batch, num_frames, applied.num_bins], zero at padding, and int32 [batch]."""
    dtype = fbank.dtype
    if fbank.shape[-1] == stored.num_bins:
        fbank = fbank[..., : applied.num_bins]
    else:
        fbank, num_frames = build(applied, fbank, num_frames, LOWER_SCOPE)
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    return layers.clear_padding(tf.cast(fbank, dtype), mask), num_frames


def _add_trained_blocks(applied, vectors, mask):
    """Appends the output of the blocks after the last one that was applied."""
    encoder, last = applied.encoder, vectors[..., -applied.encoder.units :]
    with tf.compat.v1.variable_scope(LOWER_SCOPE):
        first = applied.layers[-1] + 1
        (upper,) = pretrained_blocks.run(encoder, last, mask, [encoder.layers], first)
    return tf.concat([vectors, upper], axis=-1)
