"""Length buckets: which utterances share a batch, and the number of batches per epoch.

Both depend only on the histogram {length: number of utterances}, so an epoch has the same number of batches
in any order and on any machine, and `epoch, index = divmod(batches consumed, batches_per_epoch)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

# The search is quadratic in the number of different lengths; longer histograms are rounded up to groups.
_MAX_LENGTHS = 256


@dataclasses.dataclass(frozen=True)
class Bucketing:
    """The buckets and batch sizes of a split. Each batch is sharded among all replicas."""

    bucket_ends: tuple[int, ...]  # longest length of each bucket, increasing
    batch_sizes: tuple[int, ...]  # utterances per batch of each bucket
    batches_per_epoch: int  # including the small last batch of each bucket

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Pairs (utterances, longest length): the shape of the batches of each bucket."""
        return list(zip(self.batch_sizes, self.bucket_ends))


def choose(
    length_counts: Mapping[int, int], num_buckets: int, budget: int, num_replicas: int = 1
) -> Bucketing:
    """Returns the buckets that need the least padding, and batches that fill the budget.

    Batch sizes above num_replicas are multiples of it, so that all replicas have the same work.

    Args:
        length_counts: {length: number of utterances of that length}, not empty.
        num_buckets: maximum number of buckets.
        budget: maximum frames or tokens per batch with padding; a longer utterance is a batch of its own.
    """
    ends = choose_ends(length_counts, num_buckets)
    counts = count(length_counts, ends)
    fitting = [max(1, budget // max(1, end)) for end in ends]
    even = [size - size % num_replicas if size > num_replicas else size for size in fitting]
    sizes = tuple(min(size, number) for size, number in zip(even, counts))
    return Bucketing(ends, sizes, sum(-(-number // size) for number, size in zip(counts, sizes)))


def choose_ends(length_counts: Mapping[int, int], num_buckets: int) -> tuple[int, ...]:
    """Returns the longest length of each bucket, so that padding is least; arguments as for `choose`."""
    lengths, counts = _group(length_counts)
    ends = _find_cheapest_ends(lengths, np.cumsum(counts), min(num_buckets, len(lengths)))
    return tuple(lengths[ends].tolist())


def count(length_counts: Mapping[int, int], bucket_ends: tuple[int, ...]) -> list[int]:
    """Returns the number of utterances in each bucket."""
    counts = np.zeros(len(bucket_ends), np.int64)
    for length, number in length_counts.items():
        counts[np.searchsorted(bucket_ends, length)] += number
    return counts.tolist()


def cut(bucketing: Bucketing, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts an epoch's records into batches, in the order in which batches become full; small ones are last.

    Args:
        bucketing: buckets and batch sizes.
        lengths: int32 [records], in the order of the epoch.

    Returns:
        (rows, begins, ends), int64: batch i has the records rows[begins[i] : ends[i]].
    """
    buckets = np.searchsorted(bucketing.bucket_ends, lengths).astype(np.int16)  # int16 sorts in linear time
    rows = np.argsort(buckets, kind="stable")
    counts = np.bincount(buckets, minlength=len(bucketing.batch_sizes))
    bounds = []
    for stop, number, size in zip(np.cumsum(counts), counts, bucketing.batch_sizes):
        begins = np.arange(stop - number, stop, size)
        bounds.append([begins, np.minimum(begins + size, stop), np.full_like(begins, size)])
    begins, ends, sizes = np.concatenate(bounds, axis=1)
    full_at = np.where(ends - begins == sizes, rows[ends - 1], len(rows))
    order = np.argsort(full_at, kind="stable")
    return rows, begins[order], ends[order]


def padding_fraction(length_counts: Mapping[int, int], bucket_ends: tuple[int, ...]) -> float:
    """Returns the fraction of an epoch's frames (tokens) that pad utterances to the end of their bucket."""
    padded = sum(end * number for end, number in zip(bucket_ends, count(length_counts, bucket_ends)))
    return 1.0 - sum(length * number for length, number in length_counts.items()) / max(padded, 1)


def _group(length_counts):
    lengths, counts = np.array(sorted(length_counts.items()), np.int64).T
    if len(lengths) <= _MAX_LENGTHS:
        return lengths, counts
    group = np.arange(len(lengths)) * _MAX_LENGTHS // len(lengths)
    last = np.flatnonzero(np.append(np.diff(group), 1))
    return lengths[last], np.bincount(group, weights=counts).astype(np.int64)


def _find_cheapest_ends(lengths, cumulative, num_buckets):
    """Dynamic programming over bucket ends: cost[j] is the padded volume of all utterances up to length j."""
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
