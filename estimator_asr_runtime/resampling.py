"""Resampling by a windowed sinc, as estimator_asr/saved_model/resampling.py, which explains the method."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_ZERO_CROSSINGS = 80  # of the sinc, on each side
_CUTOFF = 0.957  # of the lower Nyquist frequency
_BETA = 10.0  # of the window exp(beta (sqrt(1 - x^2) - 1)) (Barnett, Magland and af Klinteberg, 2019)
_MIN_BLOCK = 64  # output samples
_MAX_PERIOD_SIZE = 1 << 19  # numbers in the matrix of a period
_GROUP_NUMBERS = 1 << 20  # samples that are gathered at a time
_PHASES = 0.5 - 0.5 * np.cos(np.pi * (np.arange(8) + 0.5) / 8)  # Chebyshev points of [0, 1]


class _Plan(NamedTuple):
    """How the blocks of a waveform are made."""

    step: int  # input samples of a period
    period: int  # output samples of a period
    block: int  # output samples of a block
    reach: int  # input samples on each side of an output sample
    width: int  # input samples under a block
    cutoff: float  # of the input's Nyquist frequency
    phases: np.ndarray  # float64 [num_phases], of the matrices


def resample(waveform: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """Resamples a waveform, float32 [num_samples]; frequencies above the lower Nyquist one are removed.

    Rates are in Hz. Returns float32 [round(num_samples x to_rate / from_rate)].
    """
    if from_rate == to_rate:
        return waveform
    plan = _make_plan(from_rate, to_rate)
    num_samples = (len(waveform) * plan.period + plan.step // 2) // plan.step
    num_blocks = max(-(-num_samples // plan.block), 1)
    padded, weights = np.pad(waveform, [plan.reach, 1]), _make_weights(plan)
    group = min(max(_GROUP_NUMBERS // plan.width, 1), num_blocks)
    starts = range(0, num_blocks, group)
    made = [_make_blocks(plan, padded, weights, start + np.arange(group)) for start in starts]
    return np.concatenate(made)[:num_samples]


def _make_blocks(plan: _Plan, padded, weights, blocks) -> np.ndarray:
    """Returns the output samples of blocks, float32 [num_blocks x block]."""
    positions = blocks * plan.block * plan.step  # x period
    places = (positions // plan.period)[:, None] + np.arange(plan.width)
    inputs = padded[np.minimum(places, len(padded) - 1)]
    by_phase = (inputs @ weights).reshape(len(blocks), -1, plan.block)
    shares = _interpolate((positions % plan.period) / plan.period, plan.phases)
    return np.sum(by_phase * shares[:, :, None], axis=1).reshape(-1)


def _make_plan(from_rate: int, to_rate: int) -> _Plan:
    common = math.gcd(from_rate, to_rate)
    step, period, ratio = from_rate // common, to_rate // common, from_rate / to_rate
    is_simple = step * period <= _MAX_PERIOD_SIZE
    cutoff = _CUTOFF / max(ratio, 1.0)
    small_block = max(_MIN_BLOCK // math.ceil(ratio), _MIN_BLOCK // 8)
    block = period * -(-_MIN_BLOCK // period) if is_simple else small_block
    reach = math.ceil(_ZERO_CROSSINGS / cutoff)
    width = 2 * reach + block * step // period + 2
    return _Plan(step, period, block, reach, width, cutoff, np.zeros(1) if is_simple else _PHASES)


def _make_weights(plan: _Plan) -> np.ndarray:
    """Returns float32 [width, num_phases x block]: what each input sample adds to each output sample."""
    offsets = np.arange(plan.block) * plan.step / plan.period
    outputs = (plan.phases[:, None] + offsets).reshape(-1)
    inputs = np.arange(plan.width) - float(plan.reach)
    distances = plan.cutoff * (outputs - inputs[:, None])  # in zero crossings
    heights = 1.0 - np.square(distances / _ZERO_CROSSINGS)
    window = np.exp(_BETA * (np.sqrt(np.maximum(heights, 0.0)) - 1.0))
    return np.float32(np.where(heights > 0.0, plan.cutoff * np.sinc(distances) * window, 0.0))


def _interpolate(places: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns the share of each point's value in that of each place, float32 [places, points] (Lagrange)."""
    is_own = np.eye(len(points), dtype=bool)
    products = np.prod(np.where(is_own, 1.0, places[:, None, None] - points), axis=2)
    own_products = np.prod(np.where(is_own, 1.0, points[:, None] - points), axis=1)
    return np.float32(products / own_products)
