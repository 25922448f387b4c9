"""MAPSSWE, a matched-pairs test of whether two systems differ in their numbers of errors.

It compares the errors in segments that are independent of each other: Gillick and Cox, "Some statistical
issues in the comparison of speech recognition algorithms", ICASSP 1989, section 4. The segments and the
statistic are the same as in sc_stats from NIST's SCTK 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.scoring import edit_distance

_NUM_GOOD = 2  # a segment ends after this many tokens that both systems got right (sc_stats: min_num_good)


class MatchedPairs(NamedTuple):
    """Result of MAPSSWE."""

    num_segments: int
    mean: float  # A's errors minus B's, averaged over the segments
    z: float  # 0 if the difference is the same in all segments
    p: float  # two-tailed: probability of a |z| at least this large if the systems do not differ


class Triple(NamedTuple):
    """Tokens of a reference and of both systems' hypotheses."""

    reference: Sequence[str]
    a: Sequence[str]
    b: Sequence[str]


def compare_segments(triples: Sequence[Triple]) -> MatchedPairs:
    """Compares the errors of systems A and B with MAPSSWE."""
    differences = [difference for triple in triples for difference in _segment_differences(triple)]
    count = len(differences)
    mean = float(np.mean(differences)) if count else 0.0
    deviation = float(np.std(differences, ddof=1)) if count > 1 else 0.0
    z = mean / (deviation / math.sqrt(count)) if deviation else 0.0
    return MatchedPairs(count, mean, z, math.erfc(abs(z) / math.sqrt(2)))


def _segment_differences(triple: Triple) -> Iterator[int]:
    """Yields A's errors minus B's for each segment that has errors."""
    reference, *sides = triple
    counts = np.stack([edit_distance.count_errors_at(reference, tokens) for tokens in sides])
    difference, is_open, num_good = 0, False, 0
    for place in range(len(reference) + 1):
        insertions, edits = counts[:, 0, place], counts[:, 1, place]
        is_end = place == len(reference)
        if insertions.any() or edits.any():
            is_open, num_good = True, 0
        if not is_end and not edits.any():
            num_good += 1
        difference += int(insertions[0] + edits[0] - insertions[1] - edits[1])
        if is_open and (is_end or num_good == _NUM_GOOD):
            yield difference
            difference, is_open = 0, False
