"""Loudness of a recording: peak, RMS and clipping."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

FLOOR_DBFS = -120.0  # reported for digital silence, whose level is minus infinity
FULL_SCALE = 0.999  # -0.01 dBFS: decoding and resampling make full-scale samples slightly smaller
CLIPPED_RUN = 3  # samples; a loud sine reaches full scale for only one or two samples, a clipped one for more
_BLOCK_SAMPLES = 256  # short blocks, so that float32 sums stay precise on long recordings


@dataclasses.dataclass(frozen=True)
class Loudness:
    """Levels of one recording."""

    peak_dbfs: float  # level of the largest sample; 0 is full scale, which float files may exceed
    rms_dbfs: float  # root mean square; -3.01 for a full-scale sine
    # Number of samples at full scale in runs of at least CLIPPED_RUN; a lower bound, because resampling
    # smooths some clipped peaks.
    clipped_samples: int


def measure(waveform: np.ndarray) -> Loudness:
    """Measures a recording, float32 [num_samples] in [-1, 1]; it must not be empty or contain NaN or Inf."""
    peak = max(float(waveform.max()), -float(waveform.min()))
    mean_square = _sum_of_squares(waveform) / len(waveform)
    clipped = _count_clipped(waveform) if peak >= FULL_SCALE else 0
    return Loudness(_to_dbfs(peak * peak), _to_dbfs(mean_square), clipped)


def _to_dbfs(power: float) -> float:
    return max(FLOOR_DBFS, 10 * math.log10(power)) if power > 0 else FLOOR_DBFS


def _sum_of_squares(waveform: np.ndarray) -> float:
    # einsum instead of dot, because with BLAS the number of threads would affect the last bits.
    whole = len(waveform) // _BLOCK_SAMPLES * _BLOCK_SAMPLES
    blocks, tail = waveform[:whole].reshape(-1, _BLOCK_SAMPLES), waveform[whole:]
    sums = np.einsum("ij,ij->i", blocks, blocks)
    return float(sums.sum(dtype=np.float64)) + float(np.einsum("i,i->", tail, tail))


def _count_clipped(waveform: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.abs(waveform) >= FULL_SCALE, prepend=False, append=False))
    runs = edges[1::2] - edges[::2]
    return int(runs[runs >= CLIPPED_RUN].sum())
