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
    """Result of the test."""

    num_segments: int
    mean: float  # errors of A minus errors of B per segment
    z: float  # 0 if all segments are alike
    p: float  # probability of a |z| at least as large if the systems do not differ; two-tailed


class Triple(NamedTuple):
    """Tokens of a reference, and of what each system made of it."""

    reference: Sequence[str]
    a: Sequence[str]
    b: Sequence[str]


def test(triples: Sequence[Triple]) -> MatchedPairs:
    """Compares systems A and B on utterances."""
    found = [difference for triple in triples for difference in _segment_differences(triple)]
    if not found:
        return MatchedPairs(0, 0.0, 0.0, 1.0)
    mean, deviation = float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else 0.0
    z = mean / (deviation / math.sqrt(len(found))) if deviation else 0.0
    return MatchedPairs(len(found), mean, z, math.erfc(abs(z) / math.sqrt(2)))


def _segment_differences(triple: Triple) -> Iterator[int]:
    """Yields errors of A minus those of B in each segment with errors."""
    counts = np.stack(
        [edit_distance.count_errors_at(triple.reference, each) for each in (triple.a, triple.b)]
    )
    insertions, others = counts[:, 0], counts[:, 1]
    difference, is_open, num_good = 0, False, 0
    for place in range(len(triple.reference) + 1):
        if insertions[:, place].any():
            is_open, num_good = True, 0
        is_end = place == len(triple.reference)
        if not is_end and others[:, place].any():
            is_open, num_good = True, 0
        elif not is_end:
            num_good += 1
        for errors in (insertions, others):
            difference += int(errors[0, place] - errors[1, place])
        if is_open and (is_end or num_good == _NUM_GOOD):
            yield difference
            difference, is_open = 0, False
