"""Whisper's encoder (Radford et al. 2022, section 2.2; modeling_whisper.py of Hugging Face).

Two convolutions of width 3 with GELU, of which the second halves the frames, sinusoids, Transformer blocks
that normalise before each module, and a layer norm at the end. Unlike in the original, utterances are not
padded to 30 seconds: padding is masked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from estimator_asr.models import attention, layers
from tfrecord_builder.audio import frontend, pretrained_encoder

LAYER_NORM_EPSILON = 1e-5  # PyTorch's default
_LONGEST_WAVE = 10000.0


def encode(
    encoder: pretrained_encoder.PretrainedEncoder,
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    numbers: Sequence[int],
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Runs the encoder as far as the highest of the blocks in `numbers`.

    Args:
        fbank: float32 [batch, num_frames, num_mel_bins], of frontend whisper_log_mel.
        num_frames: int32 [batch]; frames at or beyond it are ignored.
        numbers: of blocks, from 1; the last block includes the layer norm after it.

    Returns:
        Their outputs, float32 [batch, ceil(num_frames / 2), units] each, and their frames, int32 [batch].
    """
    hidden, num_subsampled = _embed(encoder, fbank, num_frames)
    mask = layers.sequence_mask(num_subsampled, tf.shape(hidden)[1])
    outputs = {}
    for number in range(1, max(numbers) + 1):
        hidden = _block(encoder, hidden, mask, number)
        outputs[number] = _finish(hidden) if number == encoder.layers else hidden
    return [outputs[number] for number in numbers], num_subsampled


def resume(
    encoder: pretrained_encoder.PretrainedEncoder, hidden: tf.Tensor, mask: tf.Tensor, first: int
) -> tf.Tensor:
    """Runs the blocks from number `first` (from 1) to the last and the layer norm after it.

    `hidden` is the output of the block before, float32 [batch, length, units], with a mask [batch, length].
    """
    for number in range(first, encoder.layers + 1):
        hidden = _block(encoder, hidden, mask, number)
    return _finish(hidden)


def _embed(encoder, fbank, num_frames):
    """Convolves and adds positions."""
    for i, stride in enumerate((1, 2)):
        mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
        fbank = _convolve(layers.clear_padding(fbank, mask), encoder.units, stride, f"convolution_{i}")
        num_frames = frontend.num_subsampled_frames(num_frames, factor=stride)
    positions = _sinusoids(tf.shape(fbank)[1], encoder.units)
    return fbank + tf.cast(positions, fbank.dtype), num_frames


def _convolve(inputs, units, stride, name):
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, inputs.shape[-1], units])
        bias = layers.get_bias("bias", [units])
    padded = tf.pad(inputs, [[0, 0], [1, 1], [0, 0]])
    hidden = tf.nn.conv1d(tf.cast(padded, kernel.dtype), kernel, stride, "VALID")
    return _gelu(tf.nn.bias_add(hidden, bias))


def _sinusoids(length, units):
    """Returns float32 [length, units]; unlike in attention.py the last wave has exactly that length."""
    rates = np.exp(-math.log(_LONGEST_WAVE) / (units // 2 - 1) * np.arange(units // 2)).astype(np.float32)
    angles = tf.range(length, dtype=tf.float32)[:, None] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)


def _block(encoder, hidden, mask, number):
    with tf.compat.v1.variable_scope(f"block_{number}"):
        normed = layers.layer_norm(hidden, "attention_norm", LAYER_NORM_EPSILON)
        hidden += attention.self_attention(normed, mask, encoder.heads)
        normed = layers.layer_norm(hidden, "feed_forward_norm", LAYER_NORM_EPSILON)
        inner = layers.dense(normed, encoder.inner_units, "inner", _gelu)
        return hidden + layers.dense(inner, encoder.units, "outer")


def _gelu(inputs):
    return tf.nn.gelu(inputs, approximate=False)


def _finish(hidden):
    return layers.layer_norm(hidden, "output_norm", LAYER_NORM_EPSILON)
