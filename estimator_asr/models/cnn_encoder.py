"""CNN encoder: a VGG-like stack of 3 x 3 convolutions with batch norm, no attention."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr.models import encoders, layers, normalisation
from tfrecord_builder.audio import frontend

VGG_CHANNELS = (32, 64, 128)


def cnn(config, fbank: tf.Tensor, num_frames: tf.Tensor, seed: Optional[tf.Tensor]) -> encoders.Encoding:
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
    return encoders.Encoding(layers.clear_padding(outputs, mask), num_frames, mask)


def _convolve(inputs, mask, channels, seed, name):
    """3 x 3 convolution, masked batch norm, relu; zero at padded positions."""
    with tf.compat.v1.variable_scope(name):
        kernel = layers.get_kernel("kernel", [3, 3, inputs.shape[-1], channels])
        convolved = tf.nn.conv2d(tf.cast(inputs, kernel.dtype), kernel, 1, "SAME")
        hidden = normalisation.batch_norm(convolved, mask, seed is not None)
    return layers.clear_padding(tf.nn.relu(hidden), mask)
