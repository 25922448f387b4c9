"""Length buckets: which utterances share a batch, and how many batches an epoch has.

In: a histogram {length: number of utterances}. Out: the longest length of each bucket. Everything is a pure
function of the histogram, so an epoch has the same number of batches in any order and on any machine, and
`epoch, position = divmod(global_step, batches_per_epoch)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

# Planning looks at no more than so many different lengths; longer histograms are rounded up to groups.
_MAX_LENGTHS = 256


def plan(length_counts: Mapping[int, int], num_buckets: int) -> tuple[int, ...]:
    """Returns the longest length of each bucket, rising, such that padding to it costs least.

    Args:
        length_counts: {length: number of utterances of that length}, not empty.
        num_buckets: at most so many buckets.
    """
    lengths, counts = _group(length_counts)
    last_ends = _cheapest_ends(lengths, np.cumsum(counts), min(num_buckets, len(lengths)))
    return tuple(int(lengths[end]) for end in last_ends)


def batch_size(longest: int, budget: int) -> int:
    """Returns how many utterances of up to `longest` fit the budget of frames or tokens; at least one."""
    return max(1, budget // max(1, longest))


def batches_per_epoch(
    length_counts: Mapping[int, int], bucket_ends: Sequence[int], batch_sizes: Sequence[int]
) -> int:
    """Returns the number of batches of one epoch, the small last one of each bucket included."""
    return sum(-(-number // size) for number, size in zip(count(length_counts, bucket_ends), batch_sizes))


def count(length_counts: Mapping[int, int], bucket_ends: Sequence[int]) -> list[int]:
    """Returns how many utterances each bucket has."""
    counts = np.zeros(len(bucket_ends), np.int64)
    for length, number in length_counts.items():
        counts[np.searchsorted(bucket_ends, length)] += number
    return counts.tolist()


def _group(length_counts):
    items = sorted((int(length), int(count)) for length, count in length_counts.items())
    lengths = np.array([length for length, _ in items], np.int64)
    counts = np.array([count for _, count in items], np.int64)
    if len(lengths) <= _MAX_LENGTHS:
        return lengths, counts
    group = np.arange(len(lengths)) * _MAX_LENGTHS // len(lengths)
    last = np.flatnonzero(np.append(np.diff(group), 1))
    return lengths[last], np.bincount(group, weights=counts).astype(np.int64)


def _cheapest_ends(lengths, cumulative, num_buckets):
    """Dynamic programme over bucket ends: cost[j] is the padded volume of all utterances up to length j."""
    # volume[i, j]: one bucket holds the lengths i+1 .. j; a bucket must not be empty.
    volume = lengths[None, :] * (cumulative[None, :] - cumulative[:, None]).astype(np.float64)
    volume[np.tril_indices(len(lengths))] = np.inf
    cost = lengths * cumulative.astype(np.float64)
    previous_ends = []
    for _ in range(num_buckets - 1):
        total = cost[:, None] + volume
        previous_ends.append(np.argmin(total, axis=0))
        cost = np.min(total, axis=0)
    ends = [len(lengths) - 1]
    for previous in reversed(previous_ends):
        ends.append(int(previous[ends[-1]]))
    return ends[::-1]
