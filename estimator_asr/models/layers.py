"""Layers shared by the models: functions of tensors, with variables in the caller's scope.

Sequences are float32 [batch, length, units]; a mask is float32 [batch, length], 1 for a real position and 0
for padding. One rule: the value of a padded position never affects a real one, neither by attention nor by
convolution nor by statistics. So padding is selected, never multiplied: zero times NaN is NaN.

Mixed precision converts constants to float16 too, and sequences may be float16 or bfloat16: constants fit
into float16, statistics and softmax are float32.
"""

from __future__ import annotations

import math
import zlib
from typing import Callable, Optional

import numpy as np
import tensorflow as tf

LAYER_NORM_EPSILON = 1e-6
MASKED_SCORE = -3e4  # finite in float16; exp() of it is zero in float32


def sequence_mask(lengths: tf.Tensor, max_length) -> tf.Tensor:
    """Returns float32 [batch, max_length], 1 below `lengths` (int32 [batch]) and 0 at or beyond it."""
    return tf.sequence_mask(lengths, max_length, dtype=tf.float32)


def get_kernel(name: str, shape) -> tf.Variable:
    """Returns a weight [..., inputs, outputs], Glorot uniform (Glorot and Bengio, 2010)."""
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.glorot_uniform_initializer())


def get_bias(name: str, shape) -> tf.Variable:
    """Returns a weight initialised to zero."""
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.zeros_initializer())


def get_scale(name: str, shape) -> tf.Variable:
    """Returns a weight initialised to one."""
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.ones_initializer())


def linear(
    inputs: tf.Tensor,
    kernel: tf.Tensor,
    bias: Optional[tf.Tensor] = None,
    activation: Optional[Callable] = None,
) -> tf.Tensor:
    """Returns activation(inputs x kernel + bias) of [..., inputs] and [inputs, outputs] by one matmul.

    The product, and so the result, has the type of the kernel.
    """
    inputs = tf.cast(inputs, kernel.dtype)
    outputs = tf.matmul(tf.reshape(inputs, [-1, kernel.shape[0]]), kernel)
    if bias is not None:
        outputs = tf.nn.bias_add(outputs, bias)
    # Before the reshape, so that TensorFlow fuses product, bias and activation.
    outputs = activation(outputs) if activation else outputs
    return tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [kernel.shape[1]]], axis=0))


def dense(
    inputs: tf.Tensor, units: int, name: str, activation: Optional[Callable] = None, use_bias: bool = True
) -> tf.Tensor:
    """Returns activation(inputs x kernel + bias), float32 [..., units]."""
    with tf.compat.v1.variable_scope(name):
        kernel = get_kernel("kernel", [inputs.shape[-1], units])
        return linear(inputs, kernel, get_bias("bias", [units]) if use_bias else None, activation)


def layer_norm(inputs: tf.Tensor, name: str = "layer_norm", epsilon: float = LAYER_NORM_EPSILON) -> tf.Tensor:
    """Layer norm over the last axis, with scale and shift (Ba et al., 2016)."""
    with tf.compat.v1.variable_scope(name):
        scale = get_scale("scale", [inputs.shape[-1]])
        shift = get_bias("shift", [inputs.shape[-1]])
    # No tf.custom_gradient: its registration is never removed and keeps the graph alive.
    values = tf.cast(inputs, tf.float32)
    centred = values - tf.reduce_mean(values, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * scale + shift, inputs.dtype)


def clear_padding(inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns inputs [batch, length, ...] with zeros where mask [batch, length] is 0, even for NaN and Inf.

    The gradient there is zero too, if all that follows is finite at zero.
    """
    is_real = tf.reshape(mask > 0, tf.concat([tf.shape(mask), [1] * (inputs.shape.rank - 2)], axis=0))
    return tf.where(is_real, inputs, tf.zeros([], inputs.dtype))


def replicate_edges(inputs: tf.Tensor, mask: tf.Tensor, width: int) -> tf.Tensor:
    """Extends each sequence by copies of its first and its last real position, for a convolution.

    With zeros instead, a convolution sees where a recording starts and ends. CTC then emits the tokens of
    short recordings there, far from their syllables (docs/results.md).

    Args:
        inputs: float [batch, length, ...]; padding may be NaN.
        mask: float32 [batch, length].
        width: positions added before and after.

    Returns:
        Tensor [batch, length + 2 x width, ...] of the dtype of inputs: `width` times the first position, the
        real ones, and the last one up to the end; zeros for a sequence without real positions.
    """
    ones = [1] * (inputs.shape.rank - 2)
    is_real = tf.reshape(mask > 0, tf.concat([tf.shape(mask), ones], axis=0))
    is_last = is_real & ~tf.pad(is_real[:, 1:], [[0, 0], [0, 1], *([0, 0] for _ in ones)])
    zero = tf.zeros([], inputs.dtype)
    last = tf.reduce_sum(tf.where(is_last, inputs, zero), axis=1, keepdims=True)
    filled = tf.where(is_real, inputs, last)
    before, after = (tf.tile(edge, [1, width, *ones]) for edge in (filled[:, :1], last))
    return tf.concat([before, filled, after], axis=1)


def dropout(inputs: tf.Tensor, rate: float, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """Zeroes values with probability `rate` (rounded to 1/256) and scales the rest up; not without a seed.

    One random byte per value: on a CPU that takes a quarter of the time of tf.nn.dropout, which samples
    floats and took a sixth of a training step.
    """
    if seed is None or rate == 0:
        return inputs
    dropped_of_256 = round(256 * rate)
    is_kept = random_bytes(tf.shape(inputs), seed) >= dropped_of_256
    return inputs * (tf.cast(is_kept, inputs.dtype) * (256 / (256 - dropped_of_256)))


def random_bytes(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns uint8 of the shape, uniform over 0 to 255, four per random word; seed as for `uniform`."""
    count = tf.reduce_prod(shape)
    words = tf.random.stateless_uniform(
        [(count + 3) // 4], _place_seed(seed), minval=None, maxval=None, dtype=tf.int32, alg="philox"
    )
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count], shape)


def uniform(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns float32 of the shape, uniform from 0 up to 1.

    The same seed (int64 [2]) at the same place of the graph gives the same numbers, so a resumed training
    samples what it would have sampled; every call samples different ones.
    """
    return tf.random.stateless_uniform(shape, _place_seed(seed), alg="philox")


def _place_seed(seed):
    place = tf.compat.v1.get_default_graph().unique_name("draw")
    return tf.cast(seed, tf.int64) + tf.constant([zlib.crc32(place.encode()), 0], tf.int64)


def add_positions(inputs: tf.Tensor) -> tf.Tensor:
    """Adds sine and cosine waves to [batch, length, units] (Vaswani et al., 2017, section 3.5)."""
    length, units = tf.shape(inputs)[1], inputs.shape[-1]
    angles = tf.range(length, dtype=tf.float32)[:, None] * _wave_rates(units)  # [length, units / 2]
    waves = tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)[None, :, :units]
    return inputs + tf.cast(waves, inputs.dtype)


def _wave_rates(units):
    """Returns float32 [ceil(units / 2)], radians per position, falling from 1 to about 1 / 10000."""
    return np.exp(-math.log(10000.0) * np.arange(0, units, 2) / units).astype(np.float32)


def feed_forward(
    inputs: tf.Tensor, inner_units: int, dropout_rate: float, seed: Optional[tf.Tensor]
) -> tf.Tensor:
    """Returns dense(dropout(relu(dense(inputs)))) with `inner_units` in the middle, shape of inputs."""
    with tf.compat.v1.variable_scope("feed_forward"):
        inner = dense(inputs, inner_units, "inner", tf.nn.relu)
        return dense(dropout(inner, dropout_rate, seed), inputs.shape[-1], "outer")


def self_attention(inputs: tf.Tensor, mask: tf.Tensor, num_heads: int, rotary: bool = False) -> tf.Tensor:
    """Multi-head attention to the positions that the mask allows (Vaswani et al., 2017, section 3.2).

    Args:
        inputs: float32 [batch, length, units].
        mask: float32 [batch, length] (real positions), or [batch or 1, length, length] (which positions
            each may attend to).
        num_heads: number of heads; divides units.
        rotary: whether scores depend on the distance of two positions (see rotate).

    Returns:
        float32 [batch, length, units]; a position that may attend to none gets the mean of all values.
    """
    with tf.compat.v1.variable_scope("self_attention"):
        parts = ("query", "key", "value")
        if mask.shape.rank == 2:
            inputs = clear_padding(inputs, mask)
        queries, keys, values = _project_to_heads(inputs, parts, inputs.shape[-1], num_heads)
        if rotary:
            queries, keys = rotate(queries), rotate(keys)
        return dense(_attend_heads(queries, keys, values, mask), inputs.shape[-1], "output")


def cross_attention(
    inputs: tf.Tensor, memory: tf.Tensor, memory_mask: tf.Tensor, num_heads: int
) -> tf.Tensor:
    """Attends from inputs [batch, length, units] to memory [batch, memory_length, ...]; as self_attention."""
    with tf.compat.v1.variable_scope("cross_attention"):
        (queries,) = _project_to_heads(inputs, ("query",), inputs.shape[-1], num_heads)
        memory = clear_padding(memory, memory_mask)
        keys, values = _project_to_heads(memory, ("key", "value"), inputs.shape[-1], num_heads)
        return dense(_attend_heads(queries, keys, values, memory_mask), inputs.shape[-1], "output")


def _attend_heads(queries, keys, values, mask):
    """Attention of float32 [batch, heads, length, units / heads]; returns [batch, query_length, units]."""
    queries *= queries.shape[-1] ** -0.5
    scores = tf.matmul(queries, keys, transpose_b=True)  # [batch, heads, query, key]
    mask = mask[:, None, None, :] if mask.shape.rank == 2 else mask[:, None]
    scores = tf.where(mask > 0, tf.cast(scores, tf.float32), MASKED_SCORE)
    weights = tf.nn.softmax(scores, name="attention_weights")
    return _join_heads(tf.matmul(tf.cast(weights, values.dtype), values))


def rotate(inputs: tf.Tensor) -> tf.Tensor:
    """Rotary positions of [..., length, units] (Su et al., 2021, section 3.2.2; halves are paired).

    Unit i and unit i + units / 2 are turned by the angle position x 10000^(-2i / units), so a product of two
    rotated vectors depends on the distance of their positions, not on where they are.
    """
    length, half = tf.shape(inputs)[-2], inputs.shape[-1] // 2
    angles = tf.range(length, dtype=tf.float32)[:, None] * _wave_rates(2 * half)  # [length, units / 2]
    cosines, sines = (tf.cast(waves, inputs.dtype) for waves in (tf.cos(angles), tf.sin(angles)))
    left, right, rest = tf.split(inputs, [half, half, inputs.shape[-1] - 2 * half], axis=-1)
    return tf.concat([left * cosines - right * sines, left * sines + right * cosines, rest], axis=-1)


def _project_to_heads(inputs, parts, units, num_heads):
    """Projects the inputs for each of the parts; float32 [batch, heads, length, units / heads] each."""
    with tf.compat.v1.variable_scope("_".join(parts)):
        kernel = get_kernel("kernel", [inputs.shape[-1], len(parts) * units])
        outputs = linear(inputs, kernel, _get_part_biases(parts, units))
    return _split_heads(outputs, len(parts), num_heads)


def _get_part_biases(parts, units):
    """Concatenates the biases of all parts, float32 [parts x units]; that of keys is zero.

    A key bias would raise all scores of a query alike, which the softmax cancels. The rest of its gradient is
    rounding, which Adam would scale up.
    """
    biased = [part for part in parts if part != "key"]
    biases = dict(zip(biased, tf.split(get_bias("bias", [len(biased) * units]), len(biased))))
    zeros = tf.zeros([units], next(iter(biases.values())).dtype)
    return tf.concat([biases.get(part, zeros) for part in parts], axis=0)


def _split_heads(inputs, count, num_heads):
    """Splits [batch, length, count x units] into `count` parts by one transposition, without copies."""
    batch, length = tf.shape(inputs)[0], tf.shape(inputs)[1]
    heads = tf.reshape(inputs, [batch, length, count, num_heads, inputs.shape[-1] // (count * num_heads)])
    return tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]), count)


def _join_heads(inputs: tf.Tensor) -> tf.Tensor:
    heads = tf.transpose(inputs, [0, 2, 1, 3])
    batch, length = tf.shape(heads)[0], tf.shape(heads)[1]
    return tf.reshape(heads, [batch, length, heads.shape[2] * heads.shape[3]])


def causal_mask(length) -> tf.Tensor:
    """Returns float32 [1, length, length]: position i may attend to positions 0 to i."""
    return tf.linalg.band_part(tf.ones([1, length, length]), -1, 0)


def depthwise_conv(inputs: tf.Tensor, kernel_size: int) -> tf.Tensor:
    """Convolves each unit over time with its own filter. No bias: batch norm follows.

    Its inputs have kernel_size // 2 more frames on each side, from replicate_edges.

    Time is the height of the image: on a CPU that is three to five times as fast as the width.
    """
    with tf.compat.v1.variable_scope("depthwise_conv"):
        # Glorot's variance is that of a full convolution: far too small for a filter over one unit.
        scale = tf.compat.v1.random_normal_initializer(stddev=kernel_size**-0.5)
        shape = [kernel_size, 1, inputs.shape[-1], 1]
        kernel = tf.compat.v1.get_variable("kernel", shape, initializer=scale)
    outputs = tf.nn.depthwise_conv2d(tf.expand_dims(inputs, 2), kernel, strides=[1, 1, 1, 1], padding="VALID")
    return tf.squeeze(outputs, 2)  # a slice's gradient would copy
