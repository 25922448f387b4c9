"""Breakdowns of errors by speaker, length, loudness and syllable part; worst utterances; confusions.

Each part of the syllables forms a sequence with its own shortest alignment: for example, the initials
of `ni3 hao3` are n, h. A token that is not a syllable, such as a letter, is compared whole in each sequence.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from estimator_asr.scoring import attribution, edit_distance, error_rate, utterances
from tfrecord_builder.data import syllables

SENTENCE_ERROR_RATE = "sentence_error_rate"
PARTS = {
    "toneless_error_rate": syllables.without_tone,
    "initial_error_rate": lambda token: _take_part(token, 0),
    "final_error_rate": lambda token: _take_part(token, 1),
    "tone_error_rate": lambda token: _take_part(token, 2),
}
OTHER_GROUP = "other"
_LENGTH_BINS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # upper limits in tokens; one more bin has no limit
_LEVEL_BIN_DB = 5
_MATRICES = {"initials": syllables.INITIALS, "finals": syllables.FINALS, "tones": syllables.TONES}

Scored = Sequence[utterances.ScoredUtterance]


def overall(scored: Scored, are_speakers_people: bool = True) -> error_rate.ErrorRate:
    """Returns the error rate of all utterances.

    Each utterance whose speaker is unknown counts as a separate speaker. If all such utterances shared a
    speaker, they would not be resampled separately, and the interval would be too narrow.
    are_speakers_people is False for text, whose `speaker` is the name of a corpus: corpora are not resampled.
    """
    labels = clusterings(scored) if are_speakers_people else clusterings(scored)[1:]
    return error_rate.measure([utterance.edits for utterance in scored], labels)


def clusterings(scored: Scored) -> tuple[list[str], list[str]]:
    """Returns the speaker and the sentence of each utterance; unknown speakers get unique names."""
    speakers = [
        utterance.speaker if utterance.is_speaker_known else f"\n{index}"  # unique: no name has a line break
        for index, utterance in enumerate(scored)
    ]
    return speakers, [utterance.reference for utterance in scored]


def by_speaker(scored: Scored) -> dict[str, error_rate.ErrorRate]:
    return _by_label(scored, lambda utterance: utterance.speaker, True)


def by_group(
    scored: Scored, pattern: str, are_speakers_people: bool = True
) -> dict[str, error_rate.ErrorRate]:
    """Returns the error rate of each group of speakers.

    A group's name is the part of a speaker's name that matches the regular expression, for example
    `^[A-Za-z]+`. Speakers without a match form the group `other`.
    """

    def group_name(utterance):
        match = re.search(pattern, utterance.speaker)
        return (match and match.group()) or OTHER_GROUP

    return _by_label(scored, group_name, are_speakers_people)


def by_length(scored: Scored, are_speakers_people: bool = True) -> dict[str, error_rate.ErrorRate]:
    """Returns the error rate for each range of reference lengths, for example `5-6`, shortest first."""

    def find_bin(utterance):
        return bisect.bisect_left(_LENGTH_BINS, len(utterance.reference_tokens))

    rates = _by_label(scored, find_bin, are_speakers_people)
    return {_name_bin(index): rate for index, rate in rates.items()}


def by_level(
    scored: Scored, levels: Mapping[str, float], are_speakers_people: bool = True
) -> dict[str, error_rate.ErrorRate]:
    """Returns the error rate for each 5 dB range of loudness, quietest first; `levels` maps ids to dBFS."""
    measured = [utterance for utterance in scored if utterance.utterance_id in levels]

    def lower_limit(utterance):
        return _LEVEL_BIN_DB * math.floor(levels[utterance.utterance_id] / _LEVEL_BIN_DB)

    rates = _by_label(measured, lower_limit, are_speakers_people)
    return {f"{low} to {low + _LEVEL_BIN_DB} dBFS": rate for low, rate in rates.items()}


def by_membership(
    scored: Scored, members: Collection[str], names: tuple[str, str], are_speakers_people: bool = True
) -> dict[str, error_rate.ErrorRate]:
    """Returns two error rates, keyed by `names`: for utterances with ids in `members`, and for all others."""
    rates = _by_label(scored, lambda utterance: utterance.utterance_id not in members, are_speakers_people)
    return {names[is_other]: rate for is_other, rate in rates.items()}


def worst(scored: Scored, limit: int) -> list[utterances.ScoredUtterance]:
    """Returns up to `limit` utterances with errors, most errors first; on a tie, shortest first."""
    wrong = [utterance for utterance in scored if utterance.edits.errors]
    return sorted(wrong, key=lambda row: (-row.edits.errors, len(row.reference_tokens)))[:limit]


def confusions(scored: Scored, limit: int) -> list[tuple[edit_distance.Pair, int]]:
    counts = collections.Counter()
    for row in scored:
        counts.update(edit_distance.confused_pairs(row.reference_tokens, row.hypothesis_tokens))
    return counts.most_common(limit)


def _by_label(scored: Scored, label: Callable[..., Hashable], are_speakers_people: bool) -> dict:
    members = collections.defaultdict(list)
    for utterance in scored:
        members[label(utterance)].append(utterance)
    return {name: overall(members[name], are_speakers_people) for name in sorted(members)}


def _name_bin(index):
    first = _LENGTH_BINS[index - 1] + 1 if index else 0
    if index == len(_LENGTH_BINS):
        return f"{first}+"
    last = _LENGTH_BINS[index]
    return str(last) if first == last else f"{first}-{last}"


def by_part(measures: dict[str, Scored]) -> Iterator[tuple[str, list[utterances.ScoredUtterance]]]:
    """Yields each name in PARTS, then SENTENCE_ERROR_RATE, with its scored utterances.

    Args:
        measures: scored utterances, keyed as in utterances.MEASURES. A sentence is wrong if it has an error
            in the last measure. Parts are yielded only if some reference tokens are toned syllables.
    """
    scored = measures.get(utterances.TOKEN_ERROR_RATE, ())
    if any(syllables.split_syllable(token) for row in scored for token in row.reference_tokens):
        for name, take in PARTS.items():
            yield name, [_compare(row, take) for row in scored]
    *_, last = measures.values()
    # A sentence counts as one token, which is substituted if anything in the sentence is wrong.
    edits = [edit_distance.Edits(int(row.edits.errors > 0), 0, 0, 1) for row in last]
    yield SENTENCE_ERROR_RATE, [dataclasses.replace(row, edits=whole) for row, whole in zip(last, edits)]


def _take_part(token: str, place: int) -> str:
    parts = syllables.split_syllable(token)
    return token if parts is None else parts[place]


def _compare(scored: utterances.ScoredUtterance, take: Callable[[str], str]) -> utterances.ScoredUtterance:
    reference = tuple(map(take, scored.reference_tokens))
    hypothesis = tuple(map(take, scored.hypothesis_tokens))
    edits = edit_distance.count_edits(reference, hypothesis)
    return dataclasses.replace(scored, reference_tokens=reference, hypothesis_tokens=hypothesis, edits=edits)


class Matrix(NamedTuple):
    """Confusion matrix: `counts` of (reference, hypothesis) pairs; names are in their usual order."""

    counts: dict[tuple[str, str], int]
    names: list[str]  # names that are confused with another name
    right: list[str]  # names that occur and are never confused

    @property
    def totals(self) -> dict[str, int]:
        """Number of times that each name occurs in the references."""
        totals = collections.Counter()
        for (reference, _), number in self.counts.items():
            totals[reference] += number
        return totals


def count_matrices(positions: Sequence[Sequence[attribution.AlignedPosition]]) -> dict[str, Matrix]:
    """Returns the confusion matrices for initials, finals and tones, counted over aligned syllables."""
    counts: dict[str, collections.Counter] = {kind: collections.Counter() for kind in _MATRICES}
    for pair, number in collections.Counter(_list_pairs(positions)).items():
        for kind, parts in zip(_MATRICES, zip(*pair)):
            counts[kind][parts] += number
    return {kind: _make_matrix(kind, counter) for kind, counter in counts.items() if counter}


def _list_pairs(positions: Sequence[Sequence[attribution.AlignedPosition]]) -> Iterator[tuple]:
    for reference, hypothesis, _ in itertools.chain.from_iterable(positions):
        if reference and hypothesis:
            parts = tuple(syllables.split_syllable(unit.syllable or "") for unit in (reference, hypothesis))
            if None not in parts:
                yield parts


def _make_matrix(kind: str, counts: Mapping[tuple[str, str], int]) -> Matrix:
    order = {name: index for index, name in enumerate(_MATRICES[kind])}
    confused = {name for pair in counts for name in pair if len(set(pair)) > 1}
    # Finals with er-hua, such as "ianr", follow all other finals.
    names = sorted(set().union(*counts), key=lambda name: (order.get(name, len(order)), name))
    sides = ([name for name in names if (name in confused) == is_confused] for is_confused in (True, False))
    return Matrix(dict(counts), *sides)
