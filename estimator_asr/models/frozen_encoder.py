"""Pretrained encoders, used frozen for feature extraction or as the lower part of a trained encoder.

Each family of encoders has a module such as whisper.py and an entry in FAMILIES. The module's `embed`
computes the input of the Transformer blocks, and its `log_mel` computes the frames that are stored with the
blocks' outputs. Outputs are read from records written by estimator_asr.encode, or computed in the graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import attention, encoders, layers, normalisation, wav2vec2, whisper
from tfrecord_builder.audio import frontend, pretrained_encoder

FAMILIES = {"whisper": whisper, "hubert": wav2vec2, "wav2vec2": wav2vec2}
SCOPE = "frozen_encoder"  # variable scope of an encoder used for feature extraction
LOWER_SCOPE = "pretrained"  # variable scope of an encoder below trained blocks
SUBSAMPLING = 2  # pairs of 20 ms outputs are joined, to halve the time spent in the trained blocks


def build(
    applied: pretrained_encoder.Applied, fbank: tf.Tensor, num_frames: tf.Tensor, scope: str = SCOPE
) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds the encoder up to the highest block that is needed; its variables are not trained.

    Args:
        applied: the encoder, and the blocks whose outputs are returned.
        fbank: float32 [batch, num_frames, num_bins], from the encoder's frontend.
        num_frames: int32 [batch], number of real frames; later frames are ignored.
        scope: variable scope, inside the caller's scope.

    Returns:
        Log-mel frames concatenated with the outputs of each block, float16 [batch, max_outputs,
        applied.num_bins], zero after the last output; and the number of outputs, int32 [batch].
    """
    encoder, family = applied.encoder, FAMILIES[applied.encoder.family]
    with tf.compat.v1.variable_scope(scope, custom_getter=layers.as_constant):
        hidden, num_outputs = family.embed(encoder, fbank, num_frames)
        mask = layers.sequence_mask(num_outputs, tf.shape(hidden)[1])
        outputs = run_blocks(encoder, hidden, mask, applied.layers)
    log_mel, num_log_mel = family.log_mel(fbank, num_frames)
    is_frame = layers.sequence_mask(num_log_mel, tf.shape(log_mel)[1])
    stacked = stack(layers.clear_padding(log_mel, is_frame), encoder.subsampling)
    joined = layers.clear_padding(tf.concat([stacked, *outputs], axis=-1), mask)
    return tf.cast(joined, tf.float16), num_outputs


def run_blocks(
    encoder: pretrained_encoder.PretrainedEncoder,
    hidden: tf.Tensor,
    mask: tf.Tensor,
    numbers: Sequence[int],
    first: int = 1,
) -> list[tf.Tensor]:
    """Runs the blocks from `first` to the highest number in `numbers`; blocks are numbered from 1 up.

    Args:
        hidden: float32 [batch, length, units], the input of block `first`.
        mask: float32 [batch, length], 1 for real positions.

    Returns:
        Outputs of the blocks in `numbers`, each shaped like hidden. If encoder.is_pre_norm is True, the
        final layer norm has been applied to the output of the encoder's last block.
    """
    outputs = {}
    for number in range(first, max(numbers) + 1):
        hidden = outputs[number] = _block(encoder, hidden, mask, number)
    if encoder.is_pre_norm and encoder.layers in outputs:
        outputs[encoder.layers] = layers.layer_norm(hidden, "output_norm", layers.PYTORCH_EPSILON)
    return [outputs[number] for number in numbers]


def _block(encoder, hidden, mask, number):
    def attend(inputs):
        return attention.self_attention(inputs, mask, encoder.heads)

    def feed_forward(inputs):
        inner = layers.dense(inputs, encoder.inner_units, "inner", layers.gelu)
        return layers.dense(inner, encoder.units, "outer")

    with tf.compat.v1.variable_scope(f"block_{number}"):
        for module, name in ((attend, "attention_norm"), (feed_forward, "feed_forward_norm")):
            if encoder.is_pre_norm:
                hidden += module(layers.layer_norm(hidden, name, layers.PYTORCH_EPSILON))
            else:
                hidden = layers.layer_norm(hidden + module(hidden), name, layers.PYTORCH_EPSILON)
        return hidden


def stack(fbank: tf.Tensor, factor: int) -> tf.Tensor:
    """Joins every `factor` frames into one; the last group of frames is padded with zeros.

    For fbank [batch, num_frames, num_bins], returns [batch, ceil(num_frames / factor), factor x num_bins].
    """
    length, num_bins = tf.shape(fbank)[1], fbank.shape[-1]
    num_stacked = frontend.num_subsampled_frames(length, factor)
    padded = tf.pad(fbank, [[0, 0], [0, num_stacked * factor - length], [0, 0]])
    return tf.reshape(padded, [tf.shape(fbank)[0], num_stacked, factor * num_bins])


def conformer_on_top(
    config: config_lib.AcousticConfig, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]
) -> encoders.Encoding:
    """Conformer blocks that read pairs of outputs from a pretrained encoder; see encoders.Encoder.

    fbank holds the outputs of config.pretrained, or the features from which they are computed; outputs of
    blocks that are trained are not read. Batch norm comes first, because the scales of the outputs differ by
    orders of magnitude.
    """
    last_frozen = config.pretrained.encoder.layers - config.trainable_blocks
    frozen = tuple(layer for layer in config.pretrained.layers if layer <= last_frozen)
    applied = dataclasses.replace(config.pretrained, layers=frozen)
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


def _read_or_encode(stored, applied, fbank, num_frames):
    """Returns encoder outputs, [batch, length, applied.num_bins], 0 at padding; and their number, int32."""
    dtype = fbank.dtype
    if fbank.shape[-1] == stored.num_bins:
        fbank = fbank[..., : applied.num_bins]
    else:
        fbank, num_frames = build(applied, fbank, num_frames, LOWER_SCOPE)
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    return layers.clear_padding(tf.cast(fbank, dtype), mask), num_frames


def _add_trained_blocks(applied, vectors, mask):
    """Runs the blocks above the last one in `applied`, and appends the last block's output to `vectors`."""
    encoder, last = applied.encoder, vectors[..., -applied.encoder.units :]
    with tf.compat.v1.variable_scope(LOWER_SCOPE):
        (upper,) = run_blocks(encoder, last, mask, [encoder.layers], first=applied.layers[-1] + 1)
    return tf.concat([vectors, upper], axis=-1)
