"""Layers shared by the models: functions of tensors, with variables in the caller's scope.

Sequences are float32 [batch, length, units]; a mask is float32 [batch, length], 1 for a real position and 0
for padding. One rule: a padded position never affects a real one, be it through attention, convolutions or
statistics. So padding is removed by tf.where, never by multiplication: zero times NaN is NaN.

In mixed precision, sequences may be float16 or bfloat16, and constants are converted to float16 too. So all
constants fit into float16, and statistics and softmax are computed in float32.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Optional

import tensorflow as tf

LAYER_NORM_EPSILON = 1e-6
MASKED_SCORE = -3e4  # finite in float16; exp() of it is zero in float32


def sequence_mask(lengths: tf.Tensor, max_length) -> tf.Tensor:
    """Returns float32 [batch, max_length], 1 below `lengths` (int32 [batch]) and 0 at or beyond it."""
    return tf.sequence_mask(lengths, max_length, dtype=tf.float32)


def as_constant(getter: Callable, *args, **kwargs) -> tf.Variable:
    """Creates a variable that is not trained; a custom_getter for variable scopes."""
    return getter(*args, **{**kwargs, "trainable": False})


def get_kernel(name: str, shape: Sequence) -> tf.Variable:
    """Returns a weight [..., inputs, outputs], Glorot uniform (Glorot and Bengio, 2010)."""
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.glorot_uniform_initializer())


def get_bias(name: str, shape: Sequence) -> tf.Variable:
    """Returns a weight initialised to zero."""
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.zeros_initializer())


def get_scale(name: str, shape: Sequence) -> tf.Variable:
    """Returns a weight initialised to one."""
    return tf.compat.v1.get_variable(name, shape, initializer=tf.compat.v1.ones_initializer())


def linear(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: Optional[tf.Tensor], activation: Optional[Callable] = None
) -> tf.Tensor:
    """Returns activation(inputs x kernel + bias) for [..., inputs] and [inputs, outputs], with one matmul.

    The inputs are cast to the kernel's dtype, which is also that of the result.
    """
    inputs = tf.cast(inputs, kernel.dtype)
    outputs = tf.matmul(tf.reshape(inputs, [-1, kernel.shape[0]]), kernel)
    if bias is not None:
        outputs = tf.nn.bias_add(outputs, bias)
    # The activation comes before the reshape, so that TensorFlow fuses it with product and bias.
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

    The gradient at padding is zero too, if all later operations have finite gradients at zero.
    """
    return tf.where(_is_real(inputs, mask), inputs, tf.zeros([], inputs.dtype))


def _is_real(inputs, mask):
    """Returns where the mask is 1, bool [batch, length, 1, ...] with the rank of inputs."""
    return tf.reshape(mask > 0, tf.concat([tf.shape(mask), [1] * (inputs.shape.rank - 2)], axis=0))


def replicate_edges(inputs: tf.Tensor, mask: tf.Tensor, before: int, after: int) -> tf.Tensor:
    """Extends each sequence by copies of its first and its last real position, for a convolution.

    With zeros instead, a convolution sees where a recording starts and ends. CTC then emits the tokens of
    short recordings at their edges, far from the syllables (docs/experiments/token-times.md).

    Returns:
        For inputs [batch, length, ...], a tensor [batch, before + length + after, ...]: `before` copies of
        the first position, the real positions, then copies of the last one up to the end. All zeros if a
        sequence has no real positions.
    """
    ones = [1] * (inputs.shape.rank - 2)
    is_real = _is_real(inputs, mask)
    is_last = _is_real(inputs, mask - tf.pad(mask[:, 1:], [[0, 0], [0, 1]]))  # LiteRT cannot pad bool
    zero = tf.zeros([], inputs.dtype)
    last = tf.reduce_sum(tf.where(is_last, inputs, zero), axis=1, keepdims=True)
    filled = tf.where(is_real, inputs, last)
    edges = (filled[:, :1], before), (last, after)
    prefix, suffix = (tf.tile(edge, [1, count, *ones]) for edge, count in edges)
    return tf.concat([prefix, filled, suffix], axis=1)


def dropout(inputs: tf.Tensor, rate: float, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """Zeroes values with probability `rate` (rounded to 1/256) and scales the others up; does nothing if seed
    is None.

    It samples one byte per value, which on a CPU takes a quarter of the time of tf.nn.dropout. That samples
    floats, which took a sixth of a training step.
    """
    if seed is None or rate == 0:
        return inputs
    dropped_of_256 = round(256 * rate)
    is_kept = random_bytes(tf.shape(inputs), seed) >= dropped_of_256
    return inputs * (tf.cast(is_kept, inputs.dtype) * (256 / (256 - dropped_of_256)))


def random_bytes(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns uint8 of the given shape, uniform over 0 to 255, four per random word; seed as in `uniform`."""
    count = tf.reduce_prod(shape)
    words = tf.random.stateless_uniform(
        [(count + 3) // 4], _place_seed(seed), minval=None, maxval=None, dtype=tf.int32, alg="philox"
    )
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count], shape)


def uniform(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns float32 of the given shape, uniform from 0 up to 1.

    The numbers depend only on the seed (int64 [2]) and on the place of the call in the graph. So a resumed
    training samples the same numbers as an uninterrupted one, and two calls sample different numbers.
    """
    return tf.random.stateless_uniform(shape, _place_seed(seed), alg="philox")


def _place_seed(seed):
    place = tf.compat.v1.get_default_graph().unique_name("draw")
    return tf.cast(seed, tf.int64) + tf.constant([zlib.crc32(place.encode()), 0], tf.int64)


def feed_forward(
    inputs: tf.Tensor, inner_units: int, dropout_rate: float, seed: Optional[tf.Tensor]
) -> tf.Tensor:
    """Returns dense(dropout(relu(dense(inputs)))) with `inner_units` in the middle, shaped as inputs."""
    with tf.compat.v1.variable_scope("feed_forward"):
        inner = dense(inputs, inner_units, "inner", tf.nn.relu)
        return dense(dropout(inner, dropout_rate, seed), inputs.shape[-1], "outer")


def at_least_one(batch: tf.Tensor, axis: int = 1) -> tf.Tensor:
    """Pads an axis of size 0 (the second by default) to size 1, so that no layer gets an empty axis."""
    missing = tf.maximum(0, 1 - tf.shape(batch)[axis])
    paddings = [[0, missing if place == axis else 0] for place in range(batch.shape.rank)]
    return tf.pad(batch, paddings, constant_values=tf.zeros([], batch.dtype))


def depthwise_conv(inputs: tf.Tensor, kernel_size: int) -> tf.Tensor:
    """Convolves each unit over time with its own filter. It has no bias, because batch norm follows.

    The inputs have kernel_size - 1 more frames than the result; streaming.Span adds them.
    """
    with tf.compat.v1.variable_scope("depthwise_conv"):
        # Glorot's variance assumes a full convolution, and is far too small for a filter over one unit.
        scale = tf.compat.v1.random_normal_initializer(stddev=kernel_size**-0.5)
        shape = [kernel_size, 1, inputs.shape[-1], 1]
        kernel = tf.compat.v1.get_variable("kernel", shape, initializer=scale)
    # Time is the height of the image: on a CPU that is three to five times as fast as time as the width.
    outputs = tf.nn.depthwise_conv2d(tf.expand_dims(inputs, 2), kernel, strides=[1, 1, 1, 1], padding="VALID")
    return tf.squeeze(outputs, 2)  # unlike outputs[:, :, 0], without a copy in the gradient
