"""Attention between positions, and where they are: sinusoids, rotary positions, the causal mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers


def self_attention(
    inputs: tf.Tensor,
    mask: tf.Tensor,
    num_heads: int,
    rotary: bool = False,
    *,
    extend: Optional[Callable] = None,
    first: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """Multi-head attention to the positions that the mask allows (Vaswani et al., 2017, section 3.2).

    Args:
        inputs: float32 [batch, length, units].
        mask: float32 [batch, length] (real positions), or [batch or 1, length, num_keys] (which positions
            each may attend to).
        num_heads: number of heads; divides units.
        rotary: whether scores depend on the distance of two positions (see rotate).
        extend: returns more keys and values than those of the inputs, as `attend` takes them; None: does not.
        first: int32 [batch], positions of the first inputs; None: 0.

    Returns:
        float32 [batch, length, units]; a position that may attend to none gets the mean of all values.
    """
    units = inputs.shape[-1]
    with tf.compat.v1.variable_scope("self_attention"):
        if mask.shape.rank == 2:
            inputs = layers.clear_padding(inputs, mask)
        queries, keys, values = project(inputs, ("query", "key", "value"), units, num_heads)
        if rotary:
            queries, keys = rotate(queries, first), rotate(keys, first)
        if extend is not None:
            keys, values = extend(keys, values)
        attended, _ = attend(queries, keys, values, mask)
        return layers.dense(attended, units, "output")


def cross_attention(
    inputs: tf.Tensor, memory: tf.Tensor, memory_mask: tf.Tensor, num_heads: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Attends from inputs [batch, length, units] to memory [batch, memory_length, ...]; as self_attention.

    Returns:
        float32 [batch, length, units], and the weights of `attend`.
    """
    units = inputs.shape[-1]
    with tf.compat.v1.variable_scope("cross_attention"):
        (queries,) = project(inputs, ("query",), units, num_heads)
        memory = layers.clear_padding(memory, memory_mask)
        keys, values = project(memory, ("key", "value"), units, num_heads)
        attended, weights = attend(queries, keys, values, memory_mask)
        return layers.dense(attended, units, "output"), weights


def attend(
    queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Attends with float [batch, heads, length, units / heads]; mask as for self_attention, of the keys.

    Returns:
        Float [batch, query_length, units], and weights float32 [batch, heads, query_length, length].
    """
    queries *= queries.shape[-1] ** -0.5
    scores = tf.matmul(queries, keys, transpose_b=True)
    if mask.shape.rank == 2:
        mask = tf.expand_dims(mask, 1)
    mask = tf.expand_dims(mask, 1)  # [batch, 1, query_length or 1, length]
    weights = tf.nn.softmax(tf.where(mask > 0, tf.cast(scores, tf.float32), layers.MASKED_SCORE))
    heads = tf.transpose(tf.matmul(tf.cast(weights, values.dtype), values), [0, 2, 1, 3])
    batch, length = tf.shape(heads)[0], tf.shape(heads)[1]
    return tf.reshape(heads, [batch, length, heads.shape[2] * heads.shape[3]]), weights


def project(inputs: tf.Tensor, parts: tuple[str, ...], units: int, num_heads: int) -> list[tf.Tensor]:
    """Projects [batch, length, ...] for each of the parts: float [batch, heads, length, units / heads]."""
    with tf.compat.v1.variable_scope("_".join(parts)):
        kernel = layers.get_kernel("kernel", [inputs.shape[-1], len(parts) * units])
        outputs = layers.linear(inputs, kernel, _get_biases(parts, units))
    return split_heads(outputs, len(parts), num_heads)


def _get_biases(parts, units):
    """Concatenates the biases of all parts, float32 [parts x units]; that of keys is zero.

    A key bias would raise all scores of a query alike, which the softmax cancels. The rest of its gradient is
    rounding, which Adam would scale up.
    """
    biased = [part for part in parts if part != "key"]
    biases = dict(zip(biased, tf.split(layers.get_bias("bias", [len(biased) * units]), len(biased))))
    zeros = tf.zeros([units], next(iter(biases.values())).dtype)
    return tf.concat([biases.get(part, zeros) for part in parts], axis=0)


def split_heads(inputs: tf.Tensor, count: int, num_heads: int) -> list[tf.Tensor]:
    """Splits [batch, length, count x units] into `count` parts by one transposition, without copies."""
    batch, length = tf.shape(inputs)[0], tf.shape(inputs)[1]
    heads = tf.reshape(inputs, [batch, length, count, num_heads, inputs.shape[-1] // (count * num_heads)])
    return tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]), count)


def rotate(inputs: tf.Tensor, first: Optional[tf.Tensor] = None) -> tf.Tensor:
    """Rotary positions of [batch, heads, length, units] (Su et al., 2021, section 3.2.2; halves are paired).

    Unit i and unit i + units / 2 are turned by the angle position x 10000^(-2i / units), so a product of two
    rotated vectors depends on the distance of their positions, not on where they are. Those of each row
    begin at `first`, int32 [batch], or at 0.
    """
    length, half = tf.shape(inputs)[-2], inputs.shape[-1] // 2
    places = tf.range(length, dtype=tf.float32)
    if first is not None:
        places += tf.cast(first, tf.float32)[:, None, None]
    angles = places[..., None] * _wave_rates(2 * half)  # [length or batch, 1, length, units / 2]
    cosines, sines = (tf.cast(waves, inputs.dtype) for waves in (tf.cos(angles), tf.sin(angles)))
    left, right, rest = tf.split(inputs, [half, half, inputs.shape[-1] - 2 * half], axis=-1)
    return tf.concat([left * cosines - right * sines, left * sines + right * cosines, rest], axis=-1)


def add_positions(inputs: tf.Tensor) -> tf.Tensor:
    """Adds sine and cosine waves to [batch, length, units] (Vaswani et al., 2017, section 3.5)."""
    length, units = tf.shape(inputs)[1], inputs.shape[-1]
    angles = tf.range(length, dtype=tf.float32)[:, None] * _wave_rates(units)  # [length, units / 2]
    waves = tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)[None, :, :units]
    return inputs + tf.cast(waves, inputs.dtype)


def _wave_rates(units):
    """Returns float32 [ceil(units / 2)], radians per position, falling from 1 to about 1 / 10000."""
    return np.exp(-math.log(10000.0) * np.arange(0, units, 2) / units).astype(np.float32)


def causal_mask(length: tf.Tensor) -> tf.Tensor:
    """Returns float32 [1, length, length]: position i may attend to positions 0 to i."""
    return tf.linalg.band_part(tf.ones([1, length, length]), -1, 0)
