"""Compares MAPSSWE with segments by hand, and with the statistic of NIST's sc_stats."""

import math

import numpy as np
import pytest

from estimator_asr.scoring import mapsswe


def corrupt(tokens, rate, rng) -> list[str]:
    """Adds random errors: of five, three are substitutions, one is a deletion, and one is an insertion."""
    made = []
    for token in tokens:
        draw = rng.random()
        if draw < 0.6 * rate:
            made += [f"w{rng.integers(1000)}"]
        elif draw >= 0.8 * rate:
            made += [token, f"w{rng.integers(1000)}"] if draw < rate else [token]
    return made


def make_triples(seed) -> list[mapsswe.Triple]:
    rng = np.random.default_rng(seed)
    triples = []
    for _ in range(60):
        reference = [f"w{number}" for number in rng.integers(0, 1000, rng.integers(3, 20))]
        sides = (corrupt(reference, rate, rng) for rate in (0.15, 0.25))
        triples.append(mapsswe.Triple(reference, *sides))
    return triples


# Output of `sc_stats -p -t mapsswe -v` for the same sentences, aligned by sclite.
@pytest.mark.parametrize(
    ("seed", "segments", "mean", "z"),
    [(0, 133, -0.489, -4.373), (1, 116, -0.681, -5.387), (2, 131, -0.603, -5.574), (3, 119, -0.866, -7.648)],
)
def test_mapsswe_equals_sc_stats(seed, segments, mean, z):
    result = mapsswe.compare_segments(make_triples(seed))
    assert (result.num_segments, round(result.mean, 3), round(result.z, 3)) == (segments, mean, z)
    assert result.p == pytest.approx(2 * (1 - 0.5 * (1 + math.erf(abs(result.z) / math.sqrt(2)))), abs=1e-12)


@pytest.mark.parametrize(
    ("reference", "a", "b", "expected"),
    [
        ("a b c", "a b c", "a b c", []),
        ("a b c", "x b c", "a b c", [1]),
        ("a b c d", "x b c y", "a b c d", [1, 1]),  # two right tokens between the errors
        ("a b c", "x b y", "a b c", [2]),  # one right token does not end a segment
        ("a b c d", "x b c d", "a b c y", [1, -1]),
        ("a b c d", "a b x c d", "a b c d", [1]),  # inserted between right tokens
        ("a b", "a b x", "a b", [1]),  # inserted at the end
        ("a b", "a b", "a b x y", [-2]),
        ("a b c", "", "a b c", [3]),
        ("a b c d", "a x c d", "a y c d", [0]),  # both wrong
        ("", "x", "", [1]),
    ],
)
def test_differences_of_segments(reference, a, b, expected):
    triple = mapsswe.Triple(*map(str.split, (reference, a, b)))
    assert list(mapsswe._segment_differences(triple)) == expected


def test_p_is_1_for_equal_systems():
    triple = mapsswe.Triple(["a"], ["x"], ["x"])
    assert mapsswe.compare_segments([triple] * 3) == (3, 0.0, 0.0, 1.0)
    assert mapsswe.compare_segments([]) == (0, 0.0, 0.0, 1.0)
