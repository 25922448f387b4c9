"""Encoders: log-mel frames in, one vector for every four frames out. ENCODERS names them.

Convolutions with a stride pad explicitly (TF's "SAME" pads by the parity of the padded length), so that
neither padding nor its parity changes a real position; masks keep padding out of convolutions, attention and
batch statistics. Frames of padding may be NaN or Inf: the first convolution gets zeros there.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.models import layers, normalisation
from tfrecord_builder import frontend

VGG_CHANNELS = (32, 64, 128)


class Encoding(NamedTuple):
    """What an encoder gives: vectors, and which of them are real."""

    outputs: tf.Tensor  # float32 [batch, num_subsampled, units], zero at padded positions
    num_frames: tf.Tensor  # int32 [batch], subsampled
    mask: tf.Tensor  # float32 [batch, num_subsampled]


def encode(config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]) -> Encoding:
    """Runs the encoder that config.encoder names.

    Args:
      config: AcousticConfig.
      fbank: float32 [batch, num_frames, num_bins].
      num_frames: int32 [batch]; frames at or beyond it are ignored.
      seed: int64 [2] of the batch, in training: dropout is on and batch norm uses the batch. None: neither.

    Returns:
      Encoding; num_subsampled is ceil(num_frames / 4).
    """
    return ENCODERS[config.encoder](config, fbank, num_frames, seed)


def conformer(config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]) -> Encoding:
    """Conformer (Gulati et al., 2020), one layer norm at the end; its convolutions stand for positions."""
    hidden, num_frames, mask = subsample(config, fbank, num_frames, seed)
    return _run_blocks(config, conformer_block, hidden, num_frames, mask, seed)


def transformer(config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]) -> Encoding:
    """Transformer encoder, layer norm before each module (Vaswani et al., 2017; Xiong et al., 2020)."""
    hidden, num_frames, mask = subsample(config, fbank, num_frames, seed)
    return _run_blocks(config, transformer_block, layers.add_positions(hidden), num_frames, mask, seed)


def _run_blocks(config, block, hidden, num_frames, mask, seed) -> Encoding:
    hidden = layers.dropout(hidden, config.acoustic_dropout, seed)
    for i in range(config.encoder_layers):
        with tf.compat.v1.variable_scope(f"block_{i}"):
            hidden = block(config, hidden, mask, seed)
    outputs = layers.clear_padding(layers.layer_norm(hidden, "output_norm"), mask)
    return Encoding(outputs, num_frames, mask)


def subsample(config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]) -> tuple:
    """Halves time and frequency twice by 3 x 3 convolutions, then joins bins and channels to one vector.

    Returns:
      float32 [batch, num_subsampled, units], int32 [batch], and the mask float32 [batch, num_subsampled].
    """
    hidden, mask = fbank[..., None], layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    for i in range(2):
        hidden = halve(hidden, mask, config.subsampling_channels, f"halve_{i}")
        num_frames = frontend.num_subsampled_frames(num_frames, factor=2)
        mask = layers.sequence_mask(num_frames, tf.shape(hidden)[1])
        hidden = tf.nn.relu(normalisation.batch_norm(hidden, mask, seed is not None, f"batch_norm_{i}"))
    flat = tf.reshape(hidden, [tf.shape(hidden)[0], -1, hidden.shape[2] * hidden.shape[3]])
    return layers.layer_norm(layers.dense(flat, config.encoder_units, "project")), num_frames, mask


def halve(inputs: tf.Tensor, mask: tf.Tensor, channels: int, name: str) -> tf.Tensor:
    """Convolves 3 x 3 with stride 2: output i sees the inputs 2i - 1 to 2i + 1, zeros beyond the ends. No
    bias: batch norm follows.

    Args:
      inputs: float32 [batch, length, num_bins, channels].
      mask: float32 [batch, length].
      channels: number of output channels.
      name: variable scope.

    Returns:
      float32 [batch, ceil(length / 2), ceil(num_bins / 2), channels].
    """
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, 3, inputs.shape[-1], channels])
    # As an argument of the convolution, this padding would leave its gradients to kernels half as fast.
    padded = tf.pad(layers.clear_padding(inputs, mask), [[0, 0], [1, 1], [1, 1], [0, 0]])
    return tf.nn.conv2d(padded, kernel, strides=2, padding="VALID")


def conformer_block(config, inputs: tf.Tensor, mask: tf.Tensor, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """Half a feed forward, attention, convolution, half a feed forward (Gulati et al., 2020, section 2.4)."""

    def residual(hidden, module, weight=1.0):
        return hidden + weight * layers.dropout(module, config.acoustic_dropout, seed)

    hidden = residual(inputs, _feed_forward(config, inputs, seed, "feed_forward_in"), 0.5)
    hidden = residual(hidden, _attention(config, hidden, mask))
    hidden = residual(hidden, convolution_module(config, hidden, mask, seed))
    hidden = residual(hidden, _feed_forward(config, hidden, seed, "feed_forward_out"), 0.5)
    return hidden


def transformer_block(config, inputs: tf.Tensor, mask: tf.Tensor, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """Attention and feed forward, each on normalised inputs and added to them."""
    hidden = inputs + layers.dropout(_attention(config, inputs, mask), config.acoustic_dropout, seed)
    module = _feed_forward(config, hidden, seed, "feed_forward")
    return hidden + layers.dropout(module, config.acoustic_dropout, seed)


def _feed_forward(config, inputs, seed, name):
    with tf.compat.v1.variable_scope(name):
        return layers.feed_forward(
            layers.layer_norm(inputs), config.encoder_inner_units, config.acoustic_dropout, seed
        )


def _attention(config, inputs, mask):
    with tf.compat.v1.variable_scope("attention"):
        return layers.self_attention(layers.layer_norm(inputs), mask, config.attention_heads)


def convolution_module(config, inputs: tf.Tensor, mask: tf.Tensor, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """Gated linear unit, depthwise convolution, batch norm, swish, projection (Gulati et al., 2020, 2.2).

    Layer norm in place of batch norm let the encoder collapse to a constant.
    """
    with tf.compat.v1.variable_scope("convolution"):
        values, gates = tf.split(
            layers.dense(layers.layer_norm(inputs), 2 * config.encoder_units, "gate"), 2, axis=-1
        )
        gated = layers.clear_padding(values * tf.sigmoid(gates), mask)
        hidden = layers.depthwise_conv(gated, config.conv_kernel_size)
        hidden = normalisation.batch_norm(hidden, mask, seed is not None)
        return layers.dense(tf.nn.silu(hidden), config.encoder_units, "project")


def cnn(config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]) -> Encoding:
    """VGG-like stack (Simonyan and Zisserman, 2015): pairs of 3 x 3 convolutions, each followed by pooling.

    The first two poolings halve time and frequency, the last one frequency alone.
    """
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    hidden = layers.clear_padding(fbank, mask)[..., None]  # [batch, num_frames, num_bins, 1]
    for i, channels in enumerate(VGG_CHANNELS):
        for j in range(2):
            hidden = _convolve(hidden, mask, channels, seed, f"convolution_{i}_{j}")
        time_stride = 2 if i < 2 else 1
        # Values are >= 0, as is padding.
        hidden = tf.nn.max_pool2d(hidden, [time_stride, 2], [time_stride, 2], "SAME")
        num_frames = frontend.num_subsampled_frames(num_frames, factor=time_stride)
        mask = layers.sequence_mask(num_frames, tf.shape(hidden)[1])
    flat = tf.reshape(hidden, [tf.shape(hidden)[0], -1, hidden.shape[2] * hidden.shape[3]])
    flat = layers.dropout(flat, config.acoustic_dropout, seed)
    outputs = layers.dense(flat, config.encoder_units, "project", tf.nn.relu)
    return Encoding(layers.clear_padding(outputs, mask), num_frames, mask)


def _convolve(inputs, mask, channels, seed, name):
    """3 x 3 convolution, masked batch norm, relu; zero at padded positions."""
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, 3, inputs.shape[-1], channels])
        hidden = normalisation.batch_norm(tf.nn.conv2d(inputs, kernel, 1, "SAME"), mask, seed is not None)
    return layers.clear_padding(tf.nn.relu(hidden), mask)


ENCODERS = {"conformer": conformer, "transformer": transformer, "cnn": cnn}
