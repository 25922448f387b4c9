"""Multi-head attention, position encodings (sinusoids, rotary positions) and the causal mask."""

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
        mask: float32 [batch, length], 1 for real positions; or [batch or 1, length, num_keys], 1 for the keys
            to which each position may attend.
        num_heads: number of heads, a divisor of units.
        rotary: whether to use rotary positions, which encode the distance between positions (see rotate).
        extend: function that extends the keys and values, which are shaped as in attend; if None, keys and
            values are not extended.
        first: int32 [batch], position of the first input in each sequence; if None, positions start at 0.

    Returns:
        float32 [batch, length, units]. If the mask excludes all keys, all keys get the same weight.
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
    """Attends from inputs [batch, length, units] to memory [batch, memory_length, ...]; see self_attention.

    Returns:
        float32 [batch, length, units], and the attention weights (see `attend`).
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
    """Attends from queries to keys. Queries, keys and values are float [batch, heads, length, units / heads].

    The mask has one of the shapes that self_attention allows, and applies to the keys.

    Returns:
        Attended values, float [batch, query_length, units], and attention weights, float32 [batch, heads,
        query_length, length].
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
    """Projects [batch, length, ...] to queries, keys or values, [batch, heads, length, units / heads]."""
    with tf.compat.v1.variable_scope("_".join(parts)):
        kernel = layers.get_kernel("kernel", [inputs.shape[-1], len(parts) * units])
        outputs = layers.linear(inputs, kernel, _get_biases(parts, units))
    return split_heads(outputs, len(parts), num_heads)


def _get_biases(parts, units):
    """Returns the biases of the parts (such as query), joined: float32 [parts x units]; the key's is zero.

    A key bias would add the same amount to all scores of a query, which the softmax cancels. The key
    bias's gradient would consist of rounding errors, which Adam would amplify.
    """
    biased = [part for part in parts if part != "key"]
    biases = dict(zip(biased, tf.split(layers.get_bias("bias", [len(biased) * units]), len(biased))))
    zeros = tf.zeros([units], next(iter(biases.values())).dtype)
    return tf.concat([biases.get(part, zeros) for part in parts], axis=0)


def split_heads(inputs: tf.Tensor, count: int, num_heads: int) -> list[tf.Tensor]:
    """Splits [batch, length, count x units] into `count` parts with one transposition and no other copy."""
    batch, length = tf.shape(inputs)[0], tf.shape(inputs)[1]
    heads = tf.reshape(inputs, [batch, length, count, num_heads, inputs.shape[-1] // (count * num_heads)])
    return tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]), count)


def rotate(inputs: tf.Tensor, first: Optional[tf.Tensor] = None) -> tf.Tensor:
    """Applies rotary positions to [batch, heads, length, units] (Su et al., 2021, section 3.2.2).

    Units i and i + units / 2 form a pair, which is rotated by the angle position x 10000^(-2i / units). So
    the dot product of two rotated vectors depends only on the distance between their positions. The first
    input has position `first`, int32 [batch], or 0 if `first` is None.
    """
    length, half = tf.shape(inputs)[-2], inputs.shape[-1] // 2
    places = tf.range(length, dtype=tf.float32)
    if first is not None:
        places += tf.cast(first, tf.float32)[:, None, None]
    angles = places[..., None] * _wave_rates(2 * half)  # [length or batch, 1, length, units / 2]
    cosines, sines = (tf.cast(waves, inputs.dtype) for waves in (tf.cos(angles), tf.sin(angles)))
    lower, upper, odd = tf.split(inputs, [half, half, inputs.shape[-1] - 2 * half], axis=-1)
    return tf.concat([lower * cosines - upper * sines, lower * sines + upper * cosines, odd], axis=-1)


def add_positions(inputs: tf.Tensor) -> tf.Tensor:
    """Adds sinusoidal positions to inputs, [batch, length, units] (Vaswani et al., 2017, section 3.5)."""
    units = inputs.shape[-1]
    waves = sinusoids(tf.shape(inputs)[1], _wave_rates(units))[None, :, :units]
    return inputs + tf.cast(waves, inputs.dtype)


def sinusoids(length: tf.Tensor, rates: np.ndarray) -> tf.Tensor:
    """Returns sine waves with these rates (radians per position), then cosines, [length, 2 x num_rates]."""
    angles = tf.range(length, dtype=tf.float32)[:, None] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)


def _wave_rates(units):
    """Returns rates in radians per position, float32 [ceil(units / 2)], from 1 down to about 1 / 10000."""
    return np.exp(-math.log(10000.0) * np.arange(0, units, 2) / units).astype(np.float32)


def causal_mask(length: tf.Tensor) -> tf.Tensor:
    """Returns a mask that lets position i attend to positions 0 to i, float32 [1, length, length]."""
    return tf.linalg.band_part(tf.ones([1, length, length]), -1, 0)
