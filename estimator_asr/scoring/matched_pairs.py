"""MAPSSWE: whether two systems differ, by their errors in segments that are independent of each other.

Gillick and Cox, "Some statistical issues in the comparison of speech recognition algorithms", ICASSP 1989,
section 4; segments and statistic as in sc_stats of NIST's SCTK 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.scoring import edit_distance

_NUM_GOOD = 2  # tokens that both systems have right end a segment (sc_stats: min_num_good)


class MatchedPairs(NamedTuple):
    num_segments: int
    mean: float  # errors of A minus errors of B per segment
    z: float  # 0 if all segments are alike
    p: float  # probability of a |z| at least as large if the systems do not differ; two-tailed


class Triple(NamedTuple):
    """Tokens of a reference, and of the hypothesis of each system."""

    reference: Sequence[str]
    a: Sequence[str]
    b: Sequence[str]


def test(triples: Sequence[Triple]) -> MatchedPairs:
    """Compares systems A and B on utterances."""
    differences = [difference for triple in triples for difference in _segment_differences(triple)]
    count = len(differences)
    mean = float(np.mean(differences)) if count else 0.0
    deviation = float(np.std(differences, ddof=1)) if count > 1 else 0.0
    z = mean / (deviation / math.sqrt(count)) if deviation else 0.0
    return MatchedPairs(count, mean, z, math.erfc(abs(z) / math.sqrt(2)))


def _segment_differences(triple: Triple) -> Iterator[int]:
    """Yields errors of A minus those of B in each segment with errors."""
    counts = np.stack(
        [edit_distance.count_errors_at(triple.reference, each) for each in (triple.a, triple.b)]
    )
    difference, is_open, num_good = 0, False, 0
    for place in range(len(triple.reference) + 1):
        insertions, others = counts[:, 0, place], counts[:, 1, place]
        is_end = place == len(triple.reference)
        if insertions.any() or others.any():
            is_open, num_good = True, 0
        if not is_end and not others.any():
            num_good += 1
        difference += int(insertions[0] + others[0] - insertions[1] - others[1])
        if is_open and (is_end or num_good == _NUM_GOOD):
            yield difference
            difference, is_open = 0, False
