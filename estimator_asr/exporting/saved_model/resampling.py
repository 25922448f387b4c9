"""Resamples waveforms of any sample rate with a windowed sinc, using only core TensorFlow operations.

The output is computed in blocks: a block is the product of the input samples that it spans and a matrix of
filter weights. Blocks differ in their phase, the distance from the previous input sample to their start. If
the ratio of the rates is simple, such as 441 to 160, blocks span whole periods, so all have phase 0 and one
matrix is enough. Otherwise, a block is interpolated between the results of eight matrices (Lagrange
interpolation between Chebyshev points of the phase), with an error of at most -90 dB for frequencies below
the input's Nyquist frequency. Work and memory are always bounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# The filter is as steep as the builder's (soxr HQ), because a lower cutoff would lose the highest mel bins.
_ZERO_CROSSINGS = 80  # zero crossings of the sinc on each side
_CUTOFF = 0.957  # fraction of the lower of the two Nyquist frequencies
# The window exp(beta (sqrt(1 - x^2) - 1)) (Barnett, Magland and af Klinteberg, 2019) has a -90 dB stopband.
_BETA = 10.0
_MIN_BLOCK = 64  # minimum output samples per block; for high input rates, down to an eighth of this
_MAX_PERIOD_SIZE = 1 << 19  # maximum input x output samples per period; above it, phases are interpolated
_GROUP_NUMBERS = 1 << 20  # maximum number of input samples gathered at a time
_PHASES = 0.5 - 0.5 * np.cos(np.pi * (np.arange(8) + 0.5) / 8)  # Chebyshev points of [0, 1]


class _Plan(NamedTuple):
    """Sizes of a waveform's periods and blocks, int64 [], and the float64 tensors `cutoff` and `phases`."""

    step: tf.Tensor  # input samples per period
    period: tf.Tensor  # output samples per period
    block: tf.Tensor  # output samples per block
    reach: tf.Tensor  # input samples that the filter covers on each side of an output sample
    width: tf.Tensor  # input samples on which a block depends
    cutoff: tf.Tensor  # [], fraction of the input's Nyquist frequency
    phases: tf.Tensor  # [num_phases], phase of each matrix, in input samples


def resample(waveform: tf.Tensor, from_rate: tf.Tensor, to_rate: int) -> tf.Tensor:
    """Resamples one waveform; frequencies above the lower of the two Nyquist frequencies are removed.

    Args:
        waveform: float32 [num_samples]; silence is assumed before and after it.
        from_rate: samples per second of the waveform, int64 [], above 0.
        to_rate: samples per second of the result.

    Returns:
        float32 [round(num_samples x to_rate / from_rate)]; `waveform` unchanged if the rates are equal.
    """
    is_same = tf.equal(from_rate, to_rate)
    return tf.cond(is_same, lambda: waveform, lambda: _resample(waveform, from_rate, to_rate))


def _resample(waveform: tf.Tensor, from_rate: tf.Tensor, to_rate: int) -> tf.Tensor:
    plan = _make_plan(from_rate, to_rate)
    num_samples = (tf.size(waveform, tf.int64) * plan.period + plan.step // 2) // plan.step
    num_blocks = tf.maximum((num_samples + plan.block - 1) // plan.block, 1)
    group = tf.minimum(tf.maximum(_GROUP_NUMBERS // plan.width, 1), num_blocks)
    padded = tf.pad(waveform, [[plan.reach, 1]])
    weights = _make_weights(plan)

    def make_group(index: tf.Tensor) -> tf.Tensor:
        # Positions are in units of 1 / period input samples.
        positions = (index * group + tf.range(group)) * plan.block * plan.step
        places = (positions // plan.period)[:, None] + tf.range(plan.width)
        inputs = tf.gather(padded, tf.minimum(places, tf.size(padded, tf.int64) - 1))
        by_phase = tf.reshape(tf.matmul(inputs, weights), tf.stack([group, -1, plan.block]))
        phase_weights = _interpolate((positions % plan.period) / plan.period, plan.phases)
        return tf.reshape(tf.reduce_sum(by_phase * phase_weights[:, :, None], axis=1), [-1])

    indices = tf.range((num_blocks + group - 1) // group)
    blocks = tf.map_fn(make_group, indices, fn_output_signature=tf.float32, parallel_iterations=1)
    return tf.reshape(blocks, [-1])[:num_samples]


def _make_plan(from_rate: tf.Tensor, to_rate: int) -> _Plan:
    divisors = np.array([rate for rate in range(1, to_rate + 1) if to_rate % rate == 0])
    common = tf.reduce_max(tf.where(tf.equal(from_rate % divisors, 0), divisors, 1))
    step, period = from_rate // common, to_rate // common
    is_simple = step * period <= _MAX_PERIOD_SIZE
    ratio = from_rate / to_rate
    cutoff = _CUTOFF / tf.maximum(ratio, 1.0)
    small_block = tf.maximum(_MIN_BLOCK // tf.cast(tf.math.ceil(ratio), tf.int64), _MIN_BLOCK // 8)
    block = tf.where(is_simple, period * ((_MIN_BLOCK + period - 1) // period), small_block)
    reach = tf.cast(tf.math.ceil(_ZERO_CROSSINGS / cutoff), tf.int64)
    width = 2 * reach + block * step // period + 2
    phases = tf.cond(is_simple, lambda: tf.zeros([1], tf.float64), lambda: tf.constant(_PHASES))
    return _Plan(step, period, block, reach, width, cutoff, phases)


def _make_weights(plan: _Plan) -> tf.Tensor:
    """Returns the weight of each input sample in each output sample, float32 [width, num_phases x block]."""
    offsets = tf.cast(tf.range(plan.block) * plan.step, tf.float64) / tf.cast(plan.period, tf.float64)
    outputs = tf.reshape(plan.phases[:, None] + offsets, [-1])
    inputs = tf.cast(tf.range(plan.width) - plan.reach, tf.float64)
    distances = plan.cutoff * (outputs - inputs[:, None])  # unit: zero crossings of the sinc
    heights = 1.0 - tf.square(distances / _ZERO_CROSSINGS)
    window = tf.exp(_BETA * (tf.sqrt(tf.maximum(heights, 0.0)) - 1.0))
    sinc = tf.math.divide_no_nan(tf.sin(math.pi * distances), math.pi * distances)
    sinc = tf.where(tf.equal(distances, 0.0), tf.ones_like(sinc), sinc)
    return tf.cast(tf.where(heights > 0.0, plan.cutoff * sinc * window, 0.0), tf.float32)


def _interpolate(places: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """Returns the Lagrange weights of the points at each place, float32 [num_places, num_points]."""
    is_own = tf.eye(tf.size(points), dtype=tf.bool)
    one = tf.ones([], tf.float64)
    products = tf.reduce_prod(tf.where(is_own, one, places[:, None, None] - points), axis=2)
    own_products = tf.reduce_prod(tf.where(is_own, one, points[:, None] - points), axis=1)
    return tf.cast(products / own_products, tf.float32)
