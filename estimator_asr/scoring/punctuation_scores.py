"""Precision, recall and F1 of punctuation marks; the characters of both texts may differ.

Marks are compared at the positions after each pair of characters in a shortest alignment. A mark after an
unpaired character counts as if it followed the last paired character before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.scoring import edit_distance, error_rate
from tfrecord_builder.data import dataset_info, marks

COMMAS_STOPS_QUESTIONS = "commas_stops_questions"  # the marks that published scores are for
ALL, SENTENCE_ENDS = "all_marks", "sentence_ends"
_GROUPS = {COMMAS_STOPS_QUESTIONS: "，。？", ALL: "".join(marks.MARKS), **{m: m for m in marks.MARKS[1:]}}
_ENDS = tuple(map(marks.MARKS.index, "。？！；"))


class MarkedText(NamedTuple):
    """A reference with marks, and a hypothesis: the same text or a recognised one, with a model's marks."""

    utterance_id: str
    speaker: str
    reference: str
    hypothesis: str

    @property
    def is_speaker_known(self) -> bool:
        return dataset_info.is_known_speaker(self.speaker)


class MarkCounts(NamedTuple):
    """The marks of one or more texts.

    Attributes:
        confusions: int64 [marks, marks], how often each reference mark is paired with each hypothesis mark.
        ends: int64 [3], numbers of sentence ends: in the hypothesis, in the reference, and in both (at most
            one character apart, even if the two marks differ).
    """

    confusions: np.ndarray
    ends: np.ndarray


@dataclasses.dataclass(frozen=True)
class MarkRate:
    """Precision, recall and F1 of marks, with 95 % intervals.

    A rate and its interval are None if the rate's denominator is 0; an interval is also None if there is only
    one text to resample.
    """

    precision: Optional[float]  # num_right / num_found
    recall: Optional[float]  # num_right / num_expected
    f1: Optional[float]  # 2 x num_right / (num_found + num_expected)
    precision_interval: Optional[tuple[float, float]]
    recall_interval: Optional[tuple[float, float]]
    confidence_interval: Optional[tuple[float, float]]  # interval of f1
    num_found: int
    num_expected: int
    num_right: int


def score(reference: str, hypothesis: str) -> MarkCounts:
    """Compares the marks in two texts (see marks.split)."""
    sides = marks.split(reference), marks.split(hypothesis)
    pairs = edit_distance.list_pairs(*(characters for characters, _ in sides)) or [(-1, -1)]
    moved = [_move(ids, places) for (_, ids), places in zip(sides, zip(*pairs))]
    confusions = np.zeros([len(marks.MARKS)] * 2, np.int64)
    np.add.at(confusions, tuple(moved), 1)
    expected_ends, found_ends = (np.flatnonzero(np.isin(ids, _ENDS)) for ids in moved)
    num_near = _count_near(found_ends, expected_ends)
    return MarkCounts(confusions, np.array([len(found_ends), len(expected_ends), num_near], np.int64))


def _move(mark_ids: Sequence[int], places: Sequence[int]) -> np.ndarray:
    """Returns the marks before the first paired character and after each one, int64 [len(places) + 1]."""
    moved = np.zeros(len(places) + 1, np.int64)
    slots = np.searchsorted(places, np.arange(len(mark_ids)), side="right")
    for slot, mark_id in zip(slots, mark_ids):
        moved[slot] = marks.strongest(moved[slot], mark_id)
    return moved


def _count_near(starts: np.ndarray, targets: np.ndarray) -> int:
    """Counts the pairs of places at most 1 apart; each place is in at most one pair."""
    count, i, j = 0, 0, 0
    while i < len(starts) and j < len(targets):
        distance = starts[i] - targets[j]
        count += abs(distance) <= 1
        i, j = i + (distance <= 1), j + (distance >= -1)
    return count


def measure(counts: Sequence[MarkCounts], *clusterings: Sequence[Hashable]) -> dict[str, MarkRate]:
    """Returns the rates for each mark, for groups of marks, and for sentence ends, keyed by name.

    `counts` has one item per text, and so does each clustering, such as the texts' speakers (see
    error_rate.measure).
    """
    return {name: _make_rate(_count(counts, name), clusterings) for name in (*_GROUPS, SENTENCE_ENDS)}


def f1(counts: Sequence[MarkCounts], name: str) -> float:
    """Returns F1 for `name`, a key in the result of `measure`; 0 if there are no such marks."""
    doubled, lengths = count_f1(counts, name)
    return doubled.sum() / max(lengths.sum(), 1)


def count_f1(counts: Sequence[MarkCounts], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numerator and the denominator of F1 for `name` in each text, int64 [texts]."""
    num_found, num_expected, num_right = _count(counts, name).T
    return 2 * num_right, num_found + num_expected


def _count(counts: Sequence[MarkCounts], name: str) -> np.ndarray:
    """Returns the numbers of found, expected and right marks in each text, int64 [texts, 3]."""
    if name == SENTENCE_ENDS:
        return np.stack([count.ends for count in counts])
    confusions = np.stack([count.confusions for count in counts])
    ids = list(map(marks.MARKS.index, _GROUPS[name]))
    right = confusions[:, ids, ids].sum(axis=1)
    return np.stack([confusions[:, :, ids].sum((1, 2)), confusions[:, ids].sum((1, 2)), right], axis=1)


def _make_rate(triples: np.ndarray, clusterings: Sequence[Sequence[Hashable]]) -> MarkRate:
    num_found, num_expected, num_right = triples.T
    ratios = (num_right, num_found), (num_right, num_expected), (2 * num_right, num_found + num_expected)
    rates, intervals = [], []
    for parts, totals in ratios:
        total = int(totals.sum())
        rates.append(int(parts.sum()) / total if total else None)
        resampled = error_rate.resample(parts, totals, clusterings) if total else None
        intervals.append(error_rate.interval(resampled) if resampled else None)
    return MarkRate(*rates, *intervals, *map(int, triples.sum(axis=0)))
