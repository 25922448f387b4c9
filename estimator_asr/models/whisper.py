"""Whisper's encoder (Radford et al. 2022, section 2.2; Hugging Face's modeling_whisper.py).

It has two convolutions of width 3 with GELU, the second of which halves the number of frames; sinusoidal
positions; Transformer blocks with layer norm before each module; and a layer norm at the end. Unlike in the
original, utterances are not padded to 30 seconds, and padding is masked.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from estimator_asr.models import attention, layers
from tfrecord_builder.audio import frontend, pretrained_encoder

_LONGEST_WAVE = 10000.0


def embed(
    encoder: pretrained_encoder.PretrainedEncoder, fbank: tf.Tensor, num_frames: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first block's input (convolved frames plus position encodings) and its length.

    Args:
        fbank: float32 [batch, num_frames, num_mel_bins], from the frontend whisper_log_mel.
        num_frames: int32 [batch], number of real frames; later frames are ignored.

    Returns:
        float32 [batch, ceil(num_frames / 2), units], and int32 [batch].
    """
    for i, stride in enumerate((1, 2)):
        mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
        fbank = _convolve(layers.clear_padding(fbank, mask), encoder.units, stride, f"convolution_{i}")
        num_frames = frontend.num_subsampled_frames(num_frames, factor=stride)
    positions = attention.sinusoids(tf.shape(fbank)[1], wave_rates(encoder.units))
    return fbank + tf.cast(positions, fbank.dtype), num_frames


def log_mel(fbank: tf.Tensor, num_frames: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns its arguments unchanged, because Whisper's features are already log-mel frames."""
    return fbank, num_frames


def _convolve(inputs, units, stride, name):
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, inputs.shape[-1], units])
        bias = layers.get_bias("bias", [units])
    padded = tf.pad(inputs, [[0, 0], [1, 1], [0, 0]])
    hidden = tf.nn.conv1d(tf.cast(padded, kernel.dtype), kernel, stride, "VALID")
    return layers.gelu(tf.nn.bias_add(hidden, bias))


def wave_rates(units: int) -> np.ndarray:
    """Returns rates of position waves, float32 [units / 2]; unlike attention.py's rates, they end at 1e-4."""
    return np.exp(-math.log(_LONGEST_WAVE) / (units // 2 - 1) * np.arange(units // 2)).astype(np.float32)
