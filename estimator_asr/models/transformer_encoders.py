"""Conformer and Transformer encoders: convolutions that subsample by 4, then attention blocks."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr.models import encoders, layers, normalisation
from tfrecord_builder.audio import frontend


def conformer(
    config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]
) -> encoders.Encoding:
    """Conformer (Gulati et al., 2020) with one layer norm at the end; its convolutions encode positions."""
    hidden, num_frames, mask = subsample(config, fbank, num_frames, seed)
    return run_blocks(config, conformer_block, hidden, num_frames, mask, seed)


def transformer(
    config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]
) -> encoders.Encoding:
    """Transformer encoder, layer norm before each module (Vaswani et al., 2017; Xiong et al., 2020).

    Its attention has rotary positions (Su et al., 2021): absolute ones would show where a recording starts.
    """
    hidden, num_frames, mask = subsample(config, fbank, num_frames, seed)
    return run_blocks(config, transformer_block, hidden, num_frames, mask, seed)


def run_blocks(config, block, hidden, num_frames, mask, seed) -> encoders.Encoding:
    """Runs config.encoder_layers blocks (functions as conformer_block) and a layer norm on what subsample
    returns."""
    hidden = layers.dropout(hidden, config.acoustic_dropout, seed)
    for i in range(config.encoder_layers):
        with tf.compat.v1.variable_scope(f"block_{i}"):
            hidden = block(config, hidden, mask, seed)
    outputs = layers.clear_padding(layers.layer_norm(hidden, "output_norm"), mask)
    return encoders.Encoding(outputs, num_frames, mask)


def subsample(config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]) -> tuple:
    """Halves time and frequency twice by 3 x 3 convolutions, then joins bins and channels into one vector.

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
    """3 x 3 convolution with stride 2: output i depends on inputs 2i - 1 to 2i + 1. No bias: batch norm
    follows. Beyond the ends are copies of the first and last frame, which hide where a recording starts.

    Inputs are float32 [batch, length, num_bins, channels] with a mask [batch, length], the result is float32
    [batch, ceil(length / 2), ceil(num_bins / 2), channels].
    """
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, 3, inputs.shape[-1], channels])
    # As an argument of the convolution, this padding would select gradient kernels half as fast.
    padded = tf.pad(layers.replicate_edges(inputs, mask, 1), [[0, 0], [0, 0], [1, 1], [0, 0]])
    return tf.nn.conv2d(tf.cast(padded, kernel.dtype), kernel, strides=2, padding="VALID")


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
    attended = _attention(config, inputs, mask, rotary=True)
    hidden = inputs + layers.dropout(attended, config.acoustic_dropout, seed)
    module = _feed_forward(config, hidden, seed, "feed_forward")
    return hidden + layers.dropout(module, config.acoustic_dropout, seed)


def _feed_forward(config, inputs, seed, name):
    with tf.compat.v1.variable_scope(name):
        return layers.feed_forward(
            layers.layer_norm(inputs), config.encoder_inner_units, config.acoustic_dropout, seed
        )


def _attention(config, inputs, mask, rotary=False):
    with tf.compat.v1.variable_scope("attention"):
        return layers.self_attention(layers.layer_norm(inputs), mask, config.attention_heads, rotary)


def convolution_module(config, inputs: tf.Tensor, mask: tf.Tensor, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """Gated linear unit, depthwise convolution, batch norm, swish, projection (Gulati et al., 2020, 2.2).

    With layer norm instead of batch norm the encoder collapsed to a constant.
    """
    with tf.compat.v1.variable_scope("convolution"):
        values, gates = tf.split(
            layers.dense(layers.layer_norm(inputs), 2 * config.encoder_units, "gate"), 2, axis=-1
        )
        gated, width = values * tf.sigmoid(gates), config.conv_kernel_size
        extended = layers.replicate_edges(gated, mask, width // 2)
        hidden = layers.depthwise_conv(extended, width)
        hidden = normalisation.batch_norm(hidden, mask, seed is not None)
        return layers.dense(tf.nn.silu(hidden), config.encoder_units, "project")
