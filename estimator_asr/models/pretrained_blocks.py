"""Transformer blocks of pretrained encoders, with layer norm before each module (is_pre_norm) or after it."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_asr.models import attention, layers
from tfrecord_builder.audio import pretrained_encoder

LAYER_NORM_EPSILON = 1e-5  # PyTorch's default


def run(
    encoder: pretrained_encoder.PretrainedEncoder,
    hidden: tf.Tensor,
    mask: tf.Tensor,
    numbers: Sequence[int],
    first: int = 1,
) -> list[tf.Tensor]:
    """Runs the blocks from number `first` to the highest of `numbers`; the first block has number 1.

    Args:
        hidden: float32 [batch, length, units], the input of block `first`.
        mask: float32 [batch, length], 1 for real positions.

    Returns:
        Outputs of the blocks in `numbers`, each shaped like hidden. If is_pre_norm, the output of the
        encoder's last block includes the layer norm after that block.
    """
    outputs = {}
    for number in range(first, max(numbers) + 1):
        hidden = outputs[number] = _block(encoder, hidden, mask, number)
    if encoder.is_pre_norm and encoder.layers in outputs:
        outputs[encoder.layers] = layers.layer_norm(hidden, "output_norm", LAYER_NORM_EPSILON)
    return [outputs[number] for number in numbers]


def gelu(inputs: tf.Tensor) -> tf.Tensor:
    """Exact GELU, PyTorch's default: x times the probability that a standard normal value is below x."""
    return tf.nn.gelu(inputs, approximate=False)


def _block(encoder, hidden, mask, number):
    with tf.compat.v1.variable_scope(f"block_{number}"):
        for module, name in ((_attend, "attention_norm"), (_feed_forward, "feed_forward_norm")):
            if encoder.is_pre_norm:
                hidden += module(encoder, layers.layer_norm(hidden, name, LAYER_NORM_EPSILON), mask)
            else:
                hidden = layers.layer_norm(hidden + module(encoder, hidden, mask), name, LAYER_NORM_EPSILON)
        return hidden


def _attend(encoder, inputs, mask):
    return attention.self_attention(inputs, mask, encoder.heads)


def _feed_forward(encoder, inputs, mask):
    inner = layers.dense(inputs, encoder.inner_units, "inner", gelu)
    return layers.dense(inner, encoder.units, "outer")
