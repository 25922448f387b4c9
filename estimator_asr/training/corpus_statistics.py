"""Mean and deviation of each feature over several data directories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfrecord_builder import dataset_info


def combine(
    infos: Sequence[dataset_info.DatasetInfo], split: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns mean and standard deviation per bin over the split, each directory weighted with its frames."""
    weights = np.array([_num_frames(info, split) for info in infos], np.float64)
    weights /= max(weights.sum(), 1.0)
    means = np.array([info.feature_mean for info in infos], np.float64)  # [directories, bins]
    squares = np.array([info.feature_stddev for info in infos], np.float64) ** 2 + means**2
    mean = weights @ means
    variance = np.maximum(weights @ squares - mean**2, 0.0)
    return tuple(mean.tolist()), tuple(np.sqrt(variance).tolist())


def _num_frames(info, split):
    counts = info.splits[split].frame_lengths if split in info.splits else {}
    return sum(length * count for length, count in counts.items())
