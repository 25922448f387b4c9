"""How much of the devices an epoch uses when its batches are sharded over n replicas.

A replica with fewer utterances waits for the one with most. Both are weighted by the padded frames.
"""

from __future__ import annotations

import random
from collections import Counter


def draw_lengths(num_utterances: int = 20_000) -> Counter:
    """Lengths of read speech: log-normal, median 5.5 s, 2 to 16 s."""
    rng = random.Random(0)
    return Counter(min(max(round(rng.lognormvariate(6.3, 0.45)), 200), 1600) for _ in range(num_utterances))


def simulate(length_counts, bucket_ends, batch_sizes, num_replicas: int) -> float:
    """Returns frames of the rows that are utterances / frames that all replicas take the time for."""
    used = taken = 0
    begin = 0
    for end, size in zip(bucket_ends, batch_sizes):
        left = sum(count for length, count in length_counts.items() if begin < length <= end)
        begin = end
        while left > 0:
            rows = min(size, left)
            left -= rows
            most = len(range(0, rows, num_replicas))  # of the first replica
            used += rows * end
            taken += num_replicas * most * end
    return used / taken
