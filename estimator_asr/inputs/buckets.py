"""Length buckets: a batch contains utterances of similar length, all from one bucket.

For given settings, buckets and batch sizes depend only on the histogram {length: number of utterances}. An
epoch therefore has the same number of batches in any order and on any machine, and the current position is
`epoch, index = divmod(batches consumed, batches_per_epoch)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

# The search takes time quadratic in the number of lengths. Beyond this limit, similar lengths are grouped.
_MAX_LENGTHS = 256


@dataclasses.dataclass(frozen=True)
class Bucketing:
    """The buckets and batch sizes of a split. Each batch is sharded across all replicas."""

    bucket_ends: tuple[int, ...]  # maximum length in each bucket, in increasing order
    batch_sizes: tuple[int, ...]  # utterances per batch, for each bucket
    batches_per_epoch: int  # including the small last batch of each bucket

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Batch shape for each bucket: (utterances, maximum length)."""
        return list(zip(self.batch_sizes, self.bucket_ends))


def choose(
    length_counts: Mapping[int, int], num_buckets: int, budget: int, num_replicas: int = 1
) -> Bucketing:
    """Returns the buckets with the least padding, and the largest batch sizes that the budget allows.

    A batch size above num_replicas is rounded down to a multiple of num_replicas, so that all replicas do the
    same amount of work. No batch size exceeds the number of utterances in its bucket.

    Args:
        length_counts: {length: number of utterances of that length}, not empty.
        num_buckets: maximum number of buckets.
        budget: maximum number of frames or tokens per batch, including padding; an utterance that is
            longer gets its own batch.
    """
    ends = choose_ends(length_counts, num_buckets)
    counts = count(length_counts, ends)
    fitting = [max(1, budget // max(1, end)) for end in ends]
    even = [size - size % num_replicas if size > num_replicas else size for size in fitting]
    sizes = tuple(min(size, number) for size, number in zip(even, counts))
    return Bucketing(ends, sizes, sum(-(-number // size) for number, size in zip(counts, sizes)))


def choose_ends(length_counts: Mapping[int, int], num_buckets: int) -> tuple[int, ...]:
    """Returns bucket ends (maximum lengths) that minimise padding; for the arguments, see `choose`."""
    lengths, counts = _group(length_counts)
    ends = _find_cheapest_ends(lengths, np.cumsum(counts), min(num_buckets, len(lengths)))
    return tuple(lengths[ends].tolist())


def count(length_counts: Mapping[int, int], bucket_ends: tuple[int, ...]) -> list[int]:
    """Returns the number of utterances in each bucket."""
    counts = np.zeros(len(bucket_ends), np.int64)
    for length, number in length_counts.items():
        counts[np.searchsorted(bucket_ends, length)] += number
    return counts.tolist()


def padding_fraction(length_counts: Mapping[int, int], bucket_ends: tuple[int, ...]) -> float:
    """Returns what fraction of an epoch is padding if each utterance is padded to the end of its bucket."""
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
    """Finds bucket ends by dynamic programming; cost[j] is the least padded size up to lengths[j]."""
    # volume[i, j]: padded size of a bucket for lengths[i + 1] to lengths[j]; infinite if that range is empty.
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
