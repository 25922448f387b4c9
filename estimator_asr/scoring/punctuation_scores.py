"""Precision, recall and F1 of punctuation marks; the characters of both texts may differ.

The marks of two texts are compared after the characters that a shortest alignment pairs. A mark after an
unpaired character counts as if it followed the last paired character before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.scoring import edit_distance, error_rate
from tfrecord_builder.data import marks

COMMAS_STOPS_QUESTIONS = "commas_stops_questions"  # the marks that published results count
ALL, SENTENCE_ENDS = "all_marks", "sentence_ends"
_GROUPS = {COMMAS_STOPS_QUESTIONS: "，。？", ALL: "".join(marks.MARKS), **{m: m for m in marks.MARKS[1:]}}
_ENDS = tuple(map(marks.MARKS.index, "。？！；"))


class MarkCounts(NamedTuple):
    """The marks of one or more texts.

    Attributes:
        confusions: int64 [marks, marks], how often each reference mark meets each hypothesis mark.
        ends: int64 [3], number of sentence ends in the hypothesis, in the reference, and in the hypothesis
            at most one character from an end in the reference, whichever mark it has.
    """

    confusions: np.ndarray
    ends: np.ndarray


@dataclasses.dataclass(frozen=True)
class MarkRate:
    """How well marks are found; a rate is None if its denominator is 0."""

    precision: Optional[float]  # right / found
    recall: Optional[float]  # right / expected
    f1: Optional[float]  # 2 x right / (found + expected)
    confidence_interval: Optional[tuple[float, float]]  # 95 % interval of f1
    found: int
    expected: int
    right: int


def score(reference: str, hypothesis: str) -> MarkCounts:
    """Compares two texts with marks (see marks.split)."""
    (characters, expected), (others, found) = marks.split(reference), marks.split(hypothesis)
    pairs = edit_distance.list_pairs(characters, others)
    expected, found = (
        _move(ids, places) for ids, places in zip((expected, found), zip(*pairs or [(-1, -1)]))
    )
    confusions = np.zeros([len(marks.MARKS)] * 2, np.int64)
    np.add.at(confusions, (expected, found), 1)
    ends = [np.flatnonzero(np.isin(ids, _ENDS)) for ids in (found, expected)]
    return MarkCounts(confusions, np.array([*map(len, ends), _count_near(*ends)], np.int64))


def _move(mark_ids: Sequence[int], places: Sequence[int]) -> np.ndarray:
    """Returns the mark before the first paired character and after each, int64 [len(places) + 1]."""
    moved = np.zeros(len(places) + 1, np.int64)
    slots = np.searchsorted(places, np.arange(len(mark_ids)), side="right")
    for slot, mark_id in zip(slots, mark_ids):
        moved[slot] = marks.strongest(moved[slot], mark_id)
    return moved


def _count_near(found: np.ndarray, expected: np.ndarray) -> int:
    """Counts the pairs of places at most 1 apart; each place is in at most one pair."""
    count, i, j = 0, 0, 0
    while i < len(found) and j < len(expected):
        distance = found[i] - expected[j]
        count += abs(distance) <= 1
        i, j = i + (distance <= 1), j + (distance >= -1)
    return count


def measure(counts: Sequence[MarkCounts], sentences: Sequence[str]) -> dict[str, MarkRate]:
    """Returns the rates of each mark, of groups of marks, and of sentence ends, keyed by name.

    The texts of `counts` are resampled for the intervals; texts with equal `sentences` stay together.
    """
    confusions = np.stack([count.confusions for count in counts])
    triples = {name: _count_group(confusions, group) for name, group in _GROUPS.items()}
    triples[SENTENCE_ENDS] = np.stack([count.ends for count in counts])
    return {name: _make_rate(triple, sentences) for name, triple in triples.items()}


def f1(counts: Sequence[MarkCounts], group: str) -> float:
    """Returns the F1 of a group of marks, a key of `measure`'s result; 0 if there are no such marks."""
    confusions = np.stack([count.confusions for count in counts])
    found, expected, right = _count_group(confusions, _GROUPS[group]).sum(axis=0)
    return 2 * right / max(found + expected, 1)


def _count_group(confusions: np.ndarray, group: Iterable[str]) -> np.ndarray:
    """Returns the numbers of found, expected and right marks in each text, int64 [texts, 3]."""
    ids = list(map(marks.MARKS.index, group))
    right = confusions[:, ids, ids].sum(axis=1)
    return np.stack([confusions[:, :, ids].sum((1, 2)), confusions[:, ids].sum((1, 2)), right], axis=1)


def _make_rate(triples: np.ndarray, sentences: Sequence[str]) -> MarkRate:
    found, expected, right = map(int, triples.sum(axis=0))
    precision, recall, f1 = (
        part / total if total else None
        for part, total in ((right, found), (right, expected), (2 * right, found + expected))
    )
    resampled = None
    if found + expected:
        resampled = error_rate.resample(2 * triples[:, 2], triples[:, 0] + triples[:, 1], [sentences])
    interval = error_rate.interval(resampled) if resampled else None
    return MarkRate(precision, recall, f1, interval, found, expected, right)
