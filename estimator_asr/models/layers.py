"""Layers shared by the models, as functions of tensors. Their variables are in the caller's scope.

Sequences are float32 [batch, length, units]; a mask is float32 [batch, length], 1 for a real position and 0
for padding. A padded position must never affect a real one, whether through attention, convolutions or
statistics. So padding is removed with tf.where, never by multiplication, because zero times NaN is NaN.

With mixed precision, sequences may be float16 or bfloat16, and constants may become float16 too. So all
constants fit in float16, and statistics and softmax are computed in float32.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Optional

import tensorflow as tf

LAYER_NORM_EPSILON = 1e-6
PYTORCH_EPSILON = 1e-5  # default of PyTorch's layer norm, which pretrained models use
MASKED_SCORE = -3e4  # finite in float16; exp(MASKED_SCORE) is zero in float32


def sequence_mask(lengths: tf.Tensor, max_length) -> tf.Tensor:
    """Returns a float32 mask [batch, max_length]: 1 at positions below `lengths` (int32 [batch]), else 0."""
    return tf.sequence_mask(lengths, max_length, dtype=tf.float32)


def as_constant(getter: Callable, *args, **kwargs) -> tf.Variable:
    """Creates a variable that is not trained; used as the custom_getter of variable scopes."""
    return getter(*args, **{**kwargs, "trainable": False})


def get_kernel(name: str, shape: Sequence) -> tf.Variable:
    """Returns a weight [..., inputs, outputs], initialised uniformly as in Glorot and Bengio (2010)."""
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
    """Returns activation(inputs x kernel + bias), computed with one matmul.

    The inputs are [..., n] and the kernel is [n, units]. The inputs are cast to the kernel's dtype, which is
    also the dtype of the result.
    """
    inputs = tf.cast(inputs, kernel.dtype)
    outputs = tf.matmul(tf.reshape(inputs, [-1, kernel.shape[0]]), kernel)
    if bias is not None:
        outputs = tf.nn.bias_add(outputs, bias)
    # The activation comes before the reshape, so that TensorFlow can fuse it with the product and the bias.
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
    # tf.custom_gradient is not used, because its registration is never removed and keeps the graph alive.
    values = tf.cast(inputs, tf.float32)
    centred = values - tf.reduce_mean(values, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * scale + shift, inputs.dtype)


def gelu(inputs: tf.Tensor) -> tf.Tensor:
    """Exact GELU (PyTorch's default): x times the probability that a standard normal value is below x."""
    return tf.nn.gelu(inputs, approximate=False)


def clear_padding(inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Sets inputs [batch, length, ...] to zero where mask [batch, length] is 0, even if they are NaN or Inf.

    The gradient at padding is also zero if all later operations have finite gradients at zero.
    """
    return tf.where(_is_real(inputs, mask), inputs, tf.zeros([], inputs.dtype))


def _is_real(inputs, mask):
    """Returns the mask as bool [batch, length, 1, ...], which has as many axes as inputs."""
    return tf.reshape(mask > 0, tf.concat([tf.shape(mask), [1] * (inputs.shape.rank - 2)], axis=0))


def replicate_edges(inputs: tf.Tensor, mask: tf.Tensor, before: int, after: int) -> tf.Tensor:
    """Pads each sequence for a convolution, with copies of its first and last real positions.

    If the padding were zeros, a convolution would see where a recording starts and ends. CTC would then emit
    a short recording's tokens at its edges, far from the syllables (docs/experiments/token-times.md).

    Returns:
        For inputs [batch, length, ...], a tensor [batch, before + length + after, ...]: `before` copies of
        the first position, the real positions, then copies of the last real position up to the end.
        If a sequence has no real positions, its result is all zeros.
    """
    ones = [1] * (inputs.shape.rank - 2)
    is_real = _is_real(inputs, mask)
    is_last = _is_real(inputs, mask - tf.pad(mask[:, 1:], [[0, 0], [0, 1]]))  # LiteRT cannot pad bool tensors
    zero = tf.zeros([], inputs.dtype)
    last = tf.reduce_sum(tf.where(is_last, inputs, zero), axis=1, keepdims=True)
    filled = tf.where(is_real, inputs, last)
    edges = (filled[:, :1], before), (last, after)
    prefix, suffix = (tf.tile(edge, [1, count, *ones]) for edge, count in edges)
    return tf.concat([prefix, filled, suffix], axis=1)


def dropout(inputs: tf.Tensor, rate: float, seed: Optional[tf.Tensor]) -> tf.Tensor:
    """Zeroes values with probability `rate`, rounded to 1/256, and scales up all other values.

    If seed is None, inputs are returned unchanged. One byte is sampled per value. On a CPU, this takes a
    quarter of the time of tf.nn.dropout, which samples floats and took a sixth of each training step.
    """
    if seed is None or rate == 0:
        return inputs
    dropped_of_256 = round(256 * rate)
    is_kept = random_bytes(tf.shape(inputs), seed) >= dropped_of_256
    return inputs * (tf.cast(is_kept, inputs.dtype) * (256 / (256 - dropped_of_256)))


def random_bytes(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns random bytes (uint8), generated four at a time; the arguments are as in `uniform`."""
    count = tf.reduce_prod(shape)
    words = tf.random.stateless_uniform(
        [(count + 3) // 4], _place_seed(seed), minval=None, maxval=None, dtype=tf.int32, alg="philox"
    )
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count], shape)


def uniform(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns a random float32 tensor with the given shape, uniform from 0 (included) to 1 (excluded).

    The values depend only on the seed (int64 [2]) and on where in the graph the function is called. So
    resumed training samples the same values as uninterrupted training, and two calls sample different values.
    """
    return tf.random.stateless_uniform(shape, _place_seed(seed), alg="philox")


def _place_seed(seed):
    place = tf.compat.v1.get_default_graph().unique_name("draw")
    return tf.cast(seed, tf.int64) + tf.constant([zlib.crc32(place.encode()), 0], tf.int64)


def feed_forward(
    inputs: tf.Tensor, inner_units: int, dropout_rate: float, seed: Optional[tf.Tensor]
) -> tf.Tensor:
    """Returns dense(dropout(relu(dense(inputs)))), shaped like inputs; the inner layer has inner_units."""
    with tf.compat.v1.variable_scope("feed_forward"):
        inner = dense(inputs, inner_units, "inner", tf.nn.relu)
        return dense(dropout(inner, dropout_rate, seed), inputs.shape[-1], "outer")


def at_least_one(batch: tf.Tensor, axis: int = 1) -> tf.Tensor:
    """Pads an axis (by default the second) to size 1 if it is empty, so that no layer sees an empty axis."""
    missing = tf.maximum(0, 1 - tf.shape(batch)[axis])
    paddings = [[0, missing if place == axis else 0] for place in range(batch.shape.rank)]
    return tf.pad(batch, paddings, constant_values=tf.zeros([], batch.dtype))


def depthwise_conv(inputs: tf.Tensor, kernel_size: int) -> tf.Tensor:
    """Convolves each unit over time with its own filter. There is no bias, because batch norm follows.

    The inputs have kernel_size - 1 more frames than the result; streaming.Span adds these frames.
    """
    with tf.compat.v1.variable_scope("depthwise_conv"):
        # Glorot's variance assumes a full convolution, and is far too small for a filter over one unit.
        scale = tf.compat.v1.random_normal_initializer(stddev=kernel_size**-0.5)
        shape = [kernel_size, 1, inputs.shape[-1], 1]
        kernel = tf.compat.v1.get_variable("kernel", shape, initializer=scale)
    # Time is the image's height: on CPUs, this is three to five times as fast as if time were the width.
    outputs = tf.nn.depthwise_conv2d(tf.expand_dims(inputs, 2), kernel, strides=[1, 1, 1, 1], padding="VALID")
    return tf.squeeze(outputs, 2)  # the gradient of outputs[:, :, 0] would need a copy
