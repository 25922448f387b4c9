"""Encoders, which turn log-mel frames into a shorter sequence of vectors (listed in acoustic.ENCODERS).

Padding must not affect real positions. Strided convolutions pad explicitly, because TensorFlow's "SAME"
padding depends on whether the padded length is even. Masks keep padding out of convolutions, attention and
batch statistics. Padded frames may be NaN or Inf, because they are set to zero before the first convolution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import attention, layers, normalisation, streaming
from tfrecord_builder.audio import frontend

VGG_CHANNELS = (32, 64, 128)


class Encoding(NamedTuple):
    """The output of an encoder."""

    outputs: tf.Tensor  # float32 [batch, num_subsampled, units], zero at padded positions
    num_frames: tf.Tensor  # int32 [batch], number of subsampled frames
    mask: tf.Tensor  # float32 [batch, num_subsampled]
    # Frames computed before the first attention layer, shaped like outputs; None if they are not available.
    below: Optional[tf.Tensor] = None


class Encoder(NamedTuple):
    """An entry of acoustic.ENCODERS.

    Attributes:
        build: function that returns an Encoding. Its arguments are an AcousticConfig; fbank, float32 [batch,
            num_frames, num_bins]; num_frames, int32 [batch] (later frames are ignored); seed (see
            acoustic.build); and, if can_stream is True, a streaming.Stream or None.
        subsampling: input frames per output frame; num_subsampled is ceil(num_frames / subsampling).
        is_pretrained: True if the encoder builds on the outputs of config.pretrained, which are read from the
            records or computed from features. acoustic.build normalises the features of all other encoders.
        can_stream: True if the encoder can process recordings in chunks.
    """

    build: Callable[..., Encoding]
    subsampling: int
    is_pretrained: bool = False
    can_stream: bool = False


def run_blocks(
    config: config_lib.AcousticConfig,
    block: Callable[..., tf.Tensor],
    hidden: tf.Tensor,
    num_frames: tf.Tensor,
    seed: Optional[tf.Tensor],
    stream: Optional[streaming.Stream] = None,
) -> Encoding:
    """Runs config.encoder_layers blocks (such as conformer_block) on subsampled frames, then a layer norm."""
    mask = layers.sequence_mask(num_frames, tf.shape(hidden)[1])
    span = streaming.Span(num_frames, mask, stream)
    attention_mask = span.attention_mask()
    below = layers.clear_padding(hidden, mask)
    hidden = layers.dropout(hidden, config.acoustic_dropout, seed)
    for i in range(config.encoder_layers):
        with tf.compat.v1.variable_scope(f"block_{i}"):
            hidden = block(config, hidden, span, attention_mask, seed)
    outputs = layers.clear_padding(layers.layer_norm(hidden, "output_norm"), mask)
    return Encoding(outputs, num_frames, mask, below)


def _subsample(config, fbank, num_frames, seed, stream) -> tuple[tf.Tensor, tf.Tensor]:
    """Halves time and frequency twice with 3 x 3 convolutions, then projects each frame to one vector.

    Returns:
        Frames, float32 [batch, num_subsampled, units], and the number of real frames, int32 [batch].
    """
    hidden, mask = tf.expand_dims(fbank, 3), layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    for i in range(2):
        span = streaming.Span(num_frames, mask, stream)
        hidden = halve(hidden, span, config.subsampling_channels, f"halve_{i}")
        num_frames = frontend.num_subsampled_frames(num_frames, factor=2)
        mask = layers.sequence_mask(num_frames, tf.shape(hidden)[1])
        hidden = tf.nn.relu(normalisation.batch_norm(hidden, mask, seed is not None, f"batch_norm_{i}"))
    return layers.layer_norm(layers.dense(_join_bins(hidden), config.encoder_units, "project")), num_frames


def _join_bins(hidden):
    return tf.reshape(hidden, [tf.shape(hidden)[0], -1, hidden.shape[2] * hidden.shape[3]])


def halve(inputs: tf.Tensor, span: streaming.Span, channels: int, name: str) -> tf.Tensor:
    """3 x 3 convolution with stride 2, in which output i depends on inputs 2i - 1 to 2i + 1.

    There is no bias, because batch norm follows. Recordings are padded with copies of their first and last
    frames, to hide where they start. The inputs are float32 [batch, length, num_bins, channels], and the
    result is float32 [batch, ceil(length / 2), ceil(num_bins / 2), channels].
    """
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, 3, inputs.shape[-1], channels])
        extended = span.extend(inputs, 1, 1)
    # If the convolution padded the bins itself, its gradients would be computed at half the speed.
    padded = tf.pad(extended, [[0, 0], [0, 0], [1, 1], [0, 0]])
    halved = tf.nn.conv2d(tf.cast(padded, kernel.dtype), kernel, strides=2, padding="VALID")
    # The shape is set, because oneDNN on some processors does not halve the number of bins of an empty batch.
    batch, length = tf.shape(halved)[0], tf.shape(halved)[1]
    return tf.reshape(halved, [batch, length, (inputs.shape[2] + 1) // 2, channels])


def conformer_block(
    config: config_lib.AcousticConfig,
    inputs: tf.Tensor,
    span: streaming.Span,
    mask: tf.Tensor,
    seed: Optional[tf.Tensor],
) -> tf.Tensor:
    """Conformer block (Gulati et al., 2020, section 2.4).

    Attention and convolution are preceded and followed by a feed-forward module with half weight. The inputs
    are float32 [batch, length, units]; `mask` is span.attention_mask(), computed only once for all blocks.
    """

    def residual(hidden, module, weight=1.0):
        return hidden + weight * layers.dropout(module, config.acoustic_dropout, seed)

    hidden = residual(inputs, _feed_forward(config, inputs, seed, "feed_forward_in"), 0.5)
    hidden = residual(hidden, _attention(config, hidden, span, mask))
    hidden = residual(hidden, _convolution_module(config, hidden, span, seed))
    return residual(hidden, _feed_forward(config, hidden, seed, "feed_forward_out"), 0.5)


def _transformer_block(config, inputs, span, mask, seed):
    attended = _attention(config, inputs, span, mask, rotary=True)
    hidden = inputs + layers.dropout(attended, config.acoustic_dropout, seed)
    module = _feed_forward(config, hidden, seed, "feed_forward")
    return hidden + layers.dropout(module, config.acoustic_dropout, seed)


def _feed_forward(config, inputs, seed, name):
    with tf.compat.v1.variable_scope(name):
        normed = layers.layer_norm(inputs)
        return layers.feed_forward(normed, config.encoder_inner_units, config.acoustic_dropout, seed)


def _attention(config, inputs, span, mask, rotary=False):
    first = span.stream.before if span.stream else None
    with tf.compat.v1.variable_scope("attention"):
        normed, heads = layers.layer_norm(inputs), config.attention_heads
        return attention.self_attention(normed, mask, heads, rotary, extend=span.extend_heads, first=first)


def _convolution_module(config, inputs, span, seed):
    """Convolution module of a Conformer block (Gulati et al., 2020, section 2.2).

    When layer norm was used instead of batch norm, the encoder's output collapsed to a constant.
    """
    with tf.compat.v1.variable_scope("convolution"):
        gate = layers.dense(layers.layer_norm(inputs), 2 * config.encoder_units, "gate")
        values, gates = tf.split(gate, 2, axis=-1)
        gated, width = values * tf.sigmoid(gates), config.conv_kernel_size
        chunks = span.cut(span.extend(gated, width // 2, width // 2), width // 2)
        hidden = span.join(layers.depthwise_conv(chunks, width))
        hidden = normalisation.batch_norm(hidden, span.mask, seed is not None)
        return layers.dense(tf.nn.silu(hidden), config.encoder_units, "project")


def _run_subsampled(block, config, fbank, num_frames, seed, stream=None) -> Encoding:
    hidden, num_frames = _subsample(config, fbank, num_frames, seed, stream)
    return run_blocks(config, block, hidden, num_frames, seed, stream)


# Conformer (Gulati et al., 2020) with one layer norm after the last block and no position encodings.
conformer = functools.partial(_run_subsampled, conformer_block)
# Transformer encoder (Vaswani et al., 2017) with layer norm before each module (Xiong et al., 2020); its
# positions are rotary (Su et al., 2021), because absolute positions would reveal where a recording starts.
transformer = functools.partial(_run_subsampled, _transformer_block)


def cnn(
    config: config_lib.AcousticConfig, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]
) -> Encoding:
    """VGG-like encoder (Simonyan and Zisserman, 2015): pairs of 3 x 3 convolutions, each followed by pooling.

    The first two pooling layers halve time and frequency; the last layer halves only frequency. There is no
    attention.
    """
    mask = layers.sequence_mask(num_frames, tf.shape(fbank)[1])
    hidden = tf.expand_dims(layers.clear_padding(fbank, mask), 3)  # [batch, num_frames, num_bins, 1]
    for i, channels in enumerate(VGG_CHANNELS):
        for j in range(2):
            hidden = _convolve(hidden, mask, channels, seed, f"convolution_{i}_{j}")
        time_stride = 2 if i < 2 else 1
        # Padding cannot change a maximum, because padding is 0 and real values are at least 0.
        hidden = tf.nn.max_pool2d(hidden, [time_stride, 2], [time_stride, 2], "SAME")
        num_frames = frontend.num_subsampled_frames(num_frames, factor=time_stride)
        mask = layers.sequence_mask(num_frames, tf.shape(hidden)[1])
    flat = layers.dropout(_join_bins(hidden), config.acoustic_dropout, seed)
    outputs = layers.clear_padding(layers.dense(flat, config.encoder_units, "project", tf.nn.relu), mask)
    return Encoding(outputs, num_frames, mask, outputs)


def _convolve(inputs, mask, channels, seed, name):
    """3 x 3 convolution, masked batch norm and ReLU; returns zeros at padded positions."""
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, 3, inputs.shape[-1], channels])
        convolved = tf.nn.conv2d(tf.cast(inputs, kernel.dtype), kernel, 1, "SAME")
        hidden = normalisation.batch_norm(convolved, mask, seed is not None)
    return layers.clear_padding(tf.nn.relu(hidden), mask)
