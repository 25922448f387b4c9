"""HuBERT (Hsu et al. 2021) and wav2vec 2.0 (Baevski et al. 2020; Hugging Face's modeling_wav2vec2.py).

Seven convolutions turn 16 kHz samples into 50 vectors per second. A projection and a wide grouped
convolution, which encodes positions, come before the Transformer blocks. Statistics over time are computed
per utterance and padding is masked, so an utterance has the same outputs in any batch.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.models import layers, normalisation
from tfrecord_builder.audio import frontend, pretrained_encoder

KERNEL_SIZES, STRIDES = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)  # 400-sample windows, 320 samples apart
_WAVEFORM_EPSILON = 1e-7  # see zero_mean_unit_var_norm in Hugging Face's feature_extraction_wav2vec2.py


def embed(
    encoder: pretrained_encoder.PretrainedEncoder, fbank: tf.Tensor, num_frames: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first block's input, float32 [batch, num_outputs, units], and its length, int32 [batch].

    `fbank` holds samples in frames of 10 ms, float32 [batch, num_frames, 160]; frames at or beyond
    num_frames, int32 [batch], are ignored.
    """
    hidden = tf.expand_dims(_join_frames(fbank, num_frames), 2)
    lengths = num_frames * fbank.shape[-1]
    if encoder.waveform.do_normalize:
        hidden = normalisation.standardise(hidden, _mask(hidden, lengths), _WAVEFORM_EPSILON)
    for number, (kernel_size, stride) in enumerate(zip(KERNEL_SIZES, STRIDES)):
        lengths = (lengths - kernel_size) // stride + 1
        hidden = _convolve(encoder.waveform, hidden, lengths, number)
    hidden = layers.layer_norm(hidden, "projection_norm", layers.PYTORCH_EPSILON)
    hidden = layers.dense(hidden, encoder.units, "projection")
    num_outputs = frontend.num_outputs(num_frames, encoder)
    hidden = layers.clear_padding(hidden, _mask(hidden, num_outputs))
    hidden += _positions(encoder, hidden)
    if not encoder.is_pre_norm:
        hidden = layers.layer_norm(hidden, "input_norm", layers.PYTORCH_EPSILON)
    return hidden, num_outputs


def log_mel(fbank: tf.Tensor, num_frames: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns log-mel frames, float32 [batch, num_frames - 2, 80], and their number, int32 [batch]."""
    features = frontend.extract(_join_frames(fbank, num_frames), frontend.FrontendConfig())
    return features, tf.maximum(num_frames - 2, 0)  # number of 25 ms windows that fit in the 10 ms frames


def _mask(inputs, lengths):
    return layers.sequence_mask(lengths, tf.shape(inputs)[1])


def _join_frames(fbank, num_frames):
    """Returns samples, float32 [batch, num_samples], zero at padding; extended if too few for one output."""
    length, cleared = tf.shape(fbank)[1], layers.clear_padding(fbank, _mask(fbank, num_frames))
    missing = tf.maximum(frontend.WAVEFORM_LEAST_FRAMES - length, 0)
    padded = tf.pad(cleared, [[0, 0], [0, missing], [0, 0]])
    return tf.reshape(padded, [tf.shape(fbank)[0], (length + missing) * fbank.shape[-1]])


def _convolve(layout, inputs, lengths, number):
    channels, epsilon = layout.conv_dim[number], layers.PYTORCH_EPSILON
    with tf.compat.v1.variable_scope(f"convolution_{number}"):
        kernel = layers.get_kernel("kernel", [KERNEL_SIZES[number], inputs.shape[-1], channels])
        hidden = tf.nn.conv1d(inputs, kernel, STRIDES[number], "VALID")
        if layout.conv_bias:
            hidden = tf.nn.bias_add(hidden, layers.get_bias("bias", [channels]))
        if layout.feat_extract_norm == "layer":
            hidden = layers.layer_norm(hidden, "norm", epsilon)
        elif number == 0:
            scale, shift = layers.get_scale("norm/scale", channels), layers.get_bias("norm/shift", channels)
            hidden = normalisation.standardise(hidden, _mask(hidden, lengths), epsilon) * scale + shift
        return layers.gelu(hidden)


def _positions(encoder, hidden):
    """Convolves each group of units by itself, because on CPUs, grouped convolutions need oneDNN."""
    width, groups = encoder.waveform.num_conv_pos_embeddings, encoder.waveform.num_conv_pos_embedding_groups
    with tf.compat.v1.variable_scope("positions"):
        kernel = layers.get_kernel("kernel", [width, encoder.units // groups, encoder.units])
        bias = layers.get_bias("bias", [encoder.units])
    padded = tf.pad(hidden, [[0, 0], [width // 2, (width - 1) // 2], [0, 0]])
    pairs = zip(tf.split(padded, groups, axis=-1), tf.split(kernel, groups, axis=-1))
    convolved = tf.concat([tf.nn.conv1d(*pair, 1, "VALID") for pair in pairs], axis=-1)
    return layers.gelu(tf.nn.bias_add(convolved, bias))
