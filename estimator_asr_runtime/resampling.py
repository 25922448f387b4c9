"""Resamples with a windowed sinc, in the same way as estimator_asr/exporting/saved_model/resampling.py.

The output is computed in blocks. Each block is the product of its input samples and a filter matrix, which
depends on the block's phase, that is, its distance from the preceding input sample. All phases are 0 if the
ratio of the rates is simple.
"""

from __future__ import annotations

import math

import numpy as np

_ZERO_CROSSINGS = 80  # zero crossings of the sinc on each side
_CUTOFF = 0.957  # cutoff frequency as a fraction of half the lower rate
_BETA = 10.0  # shape of the window exp(beta (sqrt(1 - x^2) - 1)) (Barnett, Magland and af Klinteberg, 2019)
_BLOCK = 64  # minimum output samples per block
_MAX_PERIOD_SIZE = 1 << 19  # maximum step x period of a ratio that counts as simple
_GROUP_NUMBERS = 1 << 20  # samples gathered at a time


def resample(waveform: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """Resamples a waveform, float32 [num_samples]; removes frequencies above half the lower rate.

    Rates are in Hz. Returns float32 [round(num_samples x to_rate / from_rate)].
    """
    if from_rate == to_rate:
        return waveform
    common = math.gcd(from_rate, to_rate)
    step, period = from_rate // common, to_rate // common  # input and output samples per period
    block = period * -(-_BLOCK // period) if step * period <= _MAX_PERIOD_SIZE else _BLOCK
    num_samples = (len(waveform) * period + step // 2) // step
    cutoff = _CUTOFF / max(step / period, 1.0)  # relative to the input's Nyquist frequency
    reach = math.ceil(_ZERO_CROSSINGS / cutoff)  # input samples on each side of an output sample
    times = np.arange(block) * step / period  # positions of the output samples, in input samples
    width = 2 * reach + block * step // period + 2  # input samples that a block depends on
    # The start of each block, in units of 1/period input samples.
    starts = np.arange(-(-num_samples // block)) * block * step
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(waveform, [reach, 2 * width]), width)
    output = np.empty([len(starts), block], np.float32)
    for phase in np.unique(starts % period):
        weights = _make_weights(times + phase / period, np.arange(width) - float(reach), cutoff)
        rows = np.flatnonzero(starts % period == phase)
        for group in np.array_split(rows, -(-len(rows) * width // _GROUP_NUMBERS)):
            output[group] = windows[starts[group] // period] @ weights
    return output.reshape(-1)[:num_samples]


def _make_weights(outputs: np.ndarray, inputs: np.ndarray, cutoff: float) -> np.ndarray:
    """Returns each input sample's weight in each output sample, float32 [inputs, outputs]."""
    distances = cutoff * (outputs - inputs[:, None])  # measured in zero crossings
    heights = 1.0 - np.square(distances / _ZERO_CROSSINGS)
    window = np.exp(_BETA * (np.sqrt(np.maximum(heights, 0.0)) - 1.0))
    return np.float32(np.where(heights > 0.0, cutoff * np.sinc(distances) * window, 0.0))
