"""Loudness of a recording: peak, RMS and clipping."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

FLOOR_DBFS = -120.0  # stands for digital silence, whose level is minus infinity
FULL_SCALE = 0.999  # -0.01 dBFS: decoding and resampling take a little off a sample at full scale
CLIPPED_RUN = 3  # a loud sine touches full scale for one or two samples; a clipped one for longer
_BLOCK_SAMPLES = 256  # float32 sums of short blocks, so that a long recording loses no precision


@dataclasses.dataclass(frozen=True)
class Loudness:
    """Levels of one recording."""

    peak_dbfs: float  # of the largest sample; 0 is full scale, which a float file may exceed
    rms_dbfs: float  # root mean square; -3.01 for a full-scale sine
    # Samples at or above full scale in runs of at least CLIPPED_RUN; a lower bound, because resampling rounds
    # off some clipped peaks.
    clipped_samples: int


def measure(waveform: np.ndarray) -> Loudness:
    """Measures a recording, float32 [num_samples] in [-1, 1] with at least one sample, all of them finite."""
    peak = max(float(waveform.max()), -float(waveform.min()))
    mean_square = _sum_of_squares(waveform) / len(waveform)
    clipped = _count_clipped(waveform) if peak >= FULL_SCALE else 0
    return Loudness(_to_dbfs(peak * peak), _to_dbfs(mean_square), clipped)


def _to_dbfs(power: float) -> float:
    return max(FLOOR_DBFS, 10 * math.log10(power)) if power > 0 else FLOOR_DBFS


def _sum_of_squares(waveform: np.ndarray) -> float:
    # einsum instead of dot: BLAS uses several threads, whose number would change the last bits.
    whole = len(waveform) // _BLOCK_SAMPLES * _BLOCK_SAMPLES
    blocks, rest = waveform[:whole].reshape(-1, _BLOCK_SAMPLES), waveform[whole:]
    sums = np.einsum("ij,ij->i", blocks, blocks)
    return float(sums.sum(dtype=np.float64)) + float(np.einsum("i,i->", rest, rest))


def _count_clipped(waveform: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.abs(waveform) >= FULL_SCALE, prepend=False, append=False))
    runs = edges[1::2] - edges[::2]
    return int(runs[runs >= CLIPPED_RUN].sum())
