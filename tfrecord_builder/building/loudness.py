"""How loud a recording is: peak, RMS and clipping, in one pass or two over its samples."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

FLOOR_DBFS = -120.0  # stands for digital silence, which has no level
FULL_SCALE = 0.999  # -0.01 dBFS: what decoding and resampling leave of a sample at full scale
CLIPPED_RUN = 3  # a loud sine touches full scale for one or two samples; a flat top is longer
_BLOCK_SAMPLES = 256  # partial sums of float32, so that a long recording loses no precision


@dataclasses.dataclass(frozen=True)
class Level:
    """The level of one recording.

    Attributes:
      peak_dbfs: of the largest sample; 0 is full scale, a float file may go beyond.
      rms_dbfs: of the root of the mean square; a full-scale sine has -3.01.
      clipped_samples: samples in runs of at least CLIPPED_RUN that lie at full scale or beyond. They are
        counted after resampling, which rounds off some flat tops: a lower bound.
    """

    peak_dbfs: float
    rms_dbfs: float
    clipped_samples: int


def measure(waveform: np.ndarray) -> Level:
    """Measures a recording, float32 [num_samples] in [-1, 1], with at least one finite sample."""
    peak = max(float(waveform.max()), -float(waveform.min()))
    mean_square = _sum_of_squares(waveform) / len(waveform)
    clipped = _count_clipped(waveform) if peak >= FULL_SCALE else 0
    return Level(_to_dbfs(peak * peak), _to_dbfs(mean_square), clipped)


def _to_dbfs(power: float) -> float:
    return max(FLOOR_DBFS, 10 * math.log10(power)) if power > 0 else FLOOR_DBFS


def _sum_of_squares(waveform: np.ndarray) -> float:
    # einsum and no dot: that of a BLAS takes several threads, whose number would change the last bits.
    whole = len(waveform) // _BLOCK_SAMPLES * _BLOCK_SAMPLES
    blocks, rest = waveform[:whole].reshape(-1, _BLOCK_SAMPLES), waveform[whole:]
    sums = np.einsum("ij,ij->i", blocks, blocks)
    return float(sums.sum(dtype=np.float64)) + float(np.einsum("i,i->", rest, rest))


def _count_clipped(waveform: np.ndarray) -> int:
    is_full = np.abs(waveform) >= FULL_SCALE
    edges = np.flatnonzero(np.diff(is_full, prepend=False, append=False))
    runs = edges[1::2] - edges[::2]
    return int(runs[runs >= CLIPPED_RUN].sum())
