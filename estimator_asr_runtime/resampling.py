"""Resampling by a windowed sinc, as estimator_asr/saved_model/resampling.py, which explains the method.

The output is made in blocks: the samples under a block times a matrix of filter weights. It depends on the
phase of the block, the distance from the sample before it; blocks of a simple ratio all have phase 0.
"""

from __future__ import annotations

import math

import numpy as np

_ZERO_CROSSINGS = 80  # of the sinc, on each side
_CUTOFF = 0.957  # of the lower Nyquist frequency
_BETA = 10.0  # of the window exp(beta (sqrt(1 - x^2) - 1)) (Barnett, Magland and af Klinteberg, 2019)
_BLOCK = 64  # output samples, at least
_MAX_PERIOD_SIZE = 1 << 19  # step x period of a simple ratio
_GROUP_NUMBERS = 1 << 20  # samples that are gathered at a time


def resample(waveform: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """Resamples a waveform, float32 [num_samples]; frequencies above the lower Nyquist one are removed.

    Rates are in Hz. Returns float32 [round(num_samples x to_rate / from_rate)].
    """
    if from_rate == to_rate:
        return waveform
    common = math.gcd(from_rate, to_rate)
    step, period = from_rate // common, to_rate // common  # input and output samples of a period
    block = period * -(-_BLOCK // period) if step * period <= _MAX_PERIOD_SIZE else _BLOCK
    num_samples = (len(waveform) * period + step // 2) // step
    cutoff = _CUTOFF / max(step / period, 1.0)  # of the input's Nyquist frequency
    reach = math.ceil(_ZERO_CROSSINGS / cutoff)  # input samples on each side of an output sample
    times = np.arange(block) * step / period  # of the output samples, in input samples
    width = 2 * reach + block * step // period + 2  # input samples under a block
    starts = np.arange(-(-num_samples // block)) * block * step  # x period
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(waveform, [reach, 2 * width]), width)
    made = np.empty([len(starts), block], np.float32)
    for phase in np.unique(starts % period):
        weights = _make_weights(times + phase / period, np.arange(width) - float(reach), cutoff)
        rows = np.flatnonzero(starts % period == phase)
        for group in np.array_split(rows, -(-len(rows) * width // _GROUP_NUMBERS)):
            made[group] = windows[starts[group] // period] @ weights
    return made.reshape(-1)[:num_samples]


def _make_weights(outputs: np.ndarray, inputs: np.ndarray, cutoff: float) -> np.ndarray:
    """Returns what each input adds to each output, float32 [inputs, outputs], of their times in samples."""
    distances = cutoff * (outputs - inputs[:, None])  # in zero crossings
    heights = 1.0 - np.square(distances / _ZERO_CROSSINGS)
    window = np.exp(_BETA * (np.sqrt(np.maximum(heights, 0.0)) - 1.0))
    return np.float32(np.where(heights > 0.0, cutoff * np.sinc(distances) * window, 0.0))
