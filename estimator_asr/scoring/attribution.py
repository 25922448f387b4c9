"""Attribution: which model made each error, and how.

Each position of one shortest alignment has a reference and a hypothesis, both with the syllable that was
spoken. Among the shortest alignments it is one whose substituted syllables have the most parts in common, so
that a wrong tone stands beside the syllable that it was heard for. The causes partition the errors of the
error rate.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder import syllables, vocabulary

INITIAL, FINAL, TONE = "acoustic_initial", "acoustic_final", "acoustic_tone"
SUBSTITUTION, INSERTION, DELETION = "acoustic_substitution", "acoustic_insertion", "acoustic_deletion"
HOMOPHONE = "language_homophone"
UNREACHABLE = "unreachable"
CAUSES = {
    TONE: "only the tone is wrong",
    INITIAL: "the initial is wrong, the final is right",
    FINAL: "the final is wrong, the initial is right",
    SUBSTITUTION: "another syllable: initial and final are wrong, or there are no parts",
    INSERTION: "nothing was said",
    DELETION: "nothing was written",
    HOMOPHONE: "the syllable is right, the character is not",
    UNREACHABLE: "not in the vocabulary: no input makes the models write it",
}
_EDIT = 1 << 20  # above the parts of all syllables of an utterance
_NUM_PARTS = 3


class Unit(NamedTuple):
    """What is scored, a character or a token, and its syllable; None where that is unknown."""

    text: str
    syllable: Optional[str]


class Position(NamedTuple):
    """An aligned position: `reference` is None for an insertion, `hypothesis` is None for a deletion."""

    reference: Optional[Unit]
    hypothesis: Optional[Unit]
    cause: Optional[str]  # a key of CAUSES; None where it is right


class Vocabularies(NamedTuple):
    """What the models can write and hear; None where that is not limited, or unknown."""

    characters: Optional[Collection[str]] = None
    syllables: Optional[Collection[str]] = None

    def has(self, unit: Unit) -> bool:
        """False if the models cannot write this, whatever they are given."""
        pairs = ((unit.text, self.characters), (unit.syllable, self.syllables))
        return all(text is None or known is None or text in known for text, known in pairs)


def pair(texts: Sequence[str], spoken: Sequence[str]) -> list[Unit]:
    """Returns the units of an utterance; without syllables unless there is one for each text."""
    known = spoken if len(spoken) == len(texts) else [None] * len(texts)
    return [Unit(text, syllable) for text, syllable in zip(texts, known)]


def attribute(
    reference: Sequence[Unit], hypothesis: Sequence[Unit], vocabularies: Vocabularies
) -> list[Position]:
    """Returns the positions of a reference and a hypothesis from left to right, each error with its cause."""
    return [
        Position(left, right, _find_cause(left, right, vocabularies))
        for left, right in _align(reference, hypothesis)
    ]


def count(positions: Sequence[Position]) -> dict[str, dict[str, float]]:
    """Returns for each cause the number of `errors` and their `fraction` of all, 0 if there are none."""
    counts = collections.Counter(each.cause for each in positions if each.cause)
    total = sum(counts.values())
    return {
        cause: {"errors": counts[cause], "fraction": counts[cause] / total if total else 0.0}
        for cause in CAUSES
    }


def by_model(attributed: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """Returns the errors of the acoustic model, of the language model and of the vocabularies."""
    found = collections.Counter()
    for cause, each in attributed.items():
        found[cause.partition("_")[0]] += each["errors"]
    return dict(found)


def _find_cause(
    reference: Optional[Unit], hypothesis: Optional[Unit], vocabularies: Vocabularies
) -> Optional[str]:
    if reference is None:
        return INSERTION
    if hypothesis is not None and _is_right(reference, hypothesis):
        return None
    if not vocabularies.has(reference):
        return UNREACHABLE
    if hypothesis is None:
        return DELETION
    return _find_wrong_part(reference.syllable, hypothesis.syllable)


def _is_right(reference: Unit, hypothesis: Unit) -> bool:
    return reference.text == hypothesis.text != vocabulary.UNKNOWN


@functools.cache
def _find_wrong_part(reference: Optional[str], hypothesis: Optional[str]) -> str:
    if reference is None or hypothesis is None:
        return SUBSTITUTION
    if reference == hypothesis:
        return HOMOPHONE
    wrong = _wrong_parts(reference, hypothesis)
    if wrong[:2] == (True, True):
        return SUBSTITUTION
    return INITIAL if wrong[0] else FINAL if wrong[1] else TONE


@functools.cache
def _wrong_parts(reference: Optional[str], hypothesis: Optional[str]) -> tuple[bool, ...]:
    """Returns whether initial, final and tone differ; all do if a side is no syllable."""
    parts = [syllables.split_syllable(each or "") for each in (reference, hypothesis)]
    if None in parts:
        return (reference is None or reference != hypothesis,) * _NUM_PARTS
    return tuple(left != right for left, right in zip(*parts))


def _align(
    reference: Sequence[Unit], hypothesis: Sequence[Unit]
) -> Iterator[tuple[Optional[Unit], Optional[Unit]]]:
    costs = _accumulate_costs(reference, hypothesis)
    found, i, j = [], len(reference), len(hypothesis)
    while i or j:
        if i and j and costs[i][j] == costs[i - 1][j - 1] + _cost(reference[i - 1], hypothesis[j - 1]):
            i, j = i - 1, j - 1
            found.append((reference[i], hypothesis[j]))
        elif i and costs[i][j] == costs[i - 1][j] + _EDIT:
            i -= 1
            found.append((reference[i], None))
        else:
            j -= 1
            found.append((None, hypothesis[j]))
    return reversed(found)


def _accumulate_costs(reference: Sequence[Unit], hypothesis: Sequence[Unit]) -> list[list[int]]:
    """Returns the lowest cost of each prefix of the reference with each prefix of the hypothesis."""
    rows = [[column * _EDIT for column in range(len(hypothesis) + 1)]]
    for left in reference:
        above = rows[-1]
        row = [above[0] + _EDIT]
        for column, right in enumerate(hypothesis):
            row.append(min(above[column] + _cost(left, right), above[column + 1] + _EDIT, row[-1] + _EDIT))
        rows.append(row)
    return rows


def _cost(reference: Unit, hypothesis: Unit) -> int:
    if _is_right(reference, hypothesis):
        return 0
    return _EDIT + sum(_wrong_parts(reference.syllable, hypothesis.syllable))
