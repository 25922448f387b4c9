"""Attribution of errors: which model made each error, and why.

The reference is aligned with the hypothesis; both are lists of units (a text and its syllable). Among the
shortest alignments, the one whose substituted syllables have the most parts in common is chosen, so that a
syllable with a wrong tone is aligned with the syllable that it replaces. Each error in the error rate has
exactly one cause.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder.data import syllables, vocabulary

INITIAL, FINAL, TONE = "acoustic_initial", "acoustic_final", "acoustic_tone"
SUBSTITUTION, INSERTION, DELETION = "acoustic_substitution", "acoustic_insertion", "acoustic_deletion"
LETTER = "acoustic_letter"
HOMOPHONE = "language_homophone"
UNREACHABLE = "unreachable"
CAUSES = {
    TONE: "only the tone is wrong",
    INITIAL: "the initial is wrong, the final is right",
    FINAL: "the final is wrong, the initial is right",
    SUBSTITUTION: "another syllable: initial and final are both wrong, or the tokens have no parts",
    INSERTION: "the model output something where nothing was spoken",
    DELETION: "something was spoken, but the model output nothing",
    LETTER: "a letter or digit among syllables, in the reference or the hypothesis",
    HOMOPHONE: "the syllable is right, but the character is wrong",
    UNREACHABLE: "the text or its syllable is not in the vocabulary, so the models can never output it",
}
_EDIT = 1 << 20  # cost of an edit; exceeds the total cost of all wrong parts in an utterance
_NUM_PARTS = 3
# Suffix that turns a token into a toned syllable, by token type; tokens of other types have no parts.
_TONES = {"syllable": "", "initial_final": "", "toneless": "5"}


class Unit(NamedTuple):
    """A scored character or token, and its syllable (None if the syllable is unknown)."""

    text: str
    syllable: Optional[str]


class AlignedPosition(NamedTuple):
    """A position in an alignment: `reference` is None for an insertion, `hypothesis` for a deletion."""

    reference: Optional[Unit]
    hypothesis: Optional[Unit]
    cause: Optional[str]  # a key of CAUSES; None if there is no error


class KnownVocabularies(NamedTuple):
    """Characters and syllables that the models can output; None if they are unlimited or unknown."""

    characters: Optional[Collection[str]] = None
    syllables: Optional[Collection[str]] = None
    token_type: str = "syllable"  # type of the syllables, one of vocabulary.TOKEN_TYPES

    def has(self, unit: Unit) -> bool:
        """Returns False if the models can never output the unit, whatever the input is."""
        for text, tokens in ((unit.text, self.characters), (unit.syllable, self.syllables)):
            is_missing = text is not None and tokens is not None and text not in tokens
            if is_missing or text == vocabulary.UNKNOWN:
                return False
        return True

    def split(self, syllable: Optional[str]) -> Optional[tuple[str, ...]]:
        """Returns the initial, final and tone of a syllable; None if `syllable` is not a syllable."""
        if syllable is None or self.token_type not in _TONES:
            return None
        return syllables.split_syllable(syllable + _TONES[self.token_type])


def pair(texts: Sequence[str], spoken: Sequence[str]) -> list[Unit]:
    """Returns one unit per text; the syllables are None unless `spoken` has exactly one for each text."""
    return list(map(Unit, texts, spoken if len(spoken) == len(texts) else [None] * len(texts)))


def attribute(
    reference: Sequence[Unit], hypothesis: Sequence[Unit], vocabularies: KnownVocabularies
) -> list[AlignedPosition]:
    """Aligns a reference with a hypothesis; returns positions from left to right, with causes of errors.

    A wrong character for a correctly recognised syllable is the language model's error, even if the alignment
    does not pair the two characters. For example, the shortest alignment of 是市 and 市是 has an insertion
    and a deletion, although both syllables were recognised correctly.
    """
    aligned = _align(reference, hypothesis, lambda *pair: _compare(*pair, vocabularies))
    heard_ids: set[int] = set()
    if any(not _is_right(*pair) for pair in aligned):
        for pair in _align(reference, hypothesis, _compare_syllables):
            if None not in pair and _is_heard(*pair):
                heard_ids |= {id(unit) for unit in pair}
    return [AlignedPosition(*pair, _find_cause(*pair, vocabularies, heard_ids)) for pair in aligned]


def count(positions: Sequence[AlignedPosition]) -> dict[str, dict[str, float]]:
    """Returns, for each cause, the number of `errors` and their `fraction` of all errors; both may be 0."""
    counts = collections.Counter(position.cause for position in positions if position.cause)
    total = sum(counts.values())
    return {
        cause: {"errors": counts[cause], "fraction": counts[cause] / total if total else 0.0}
        for cause in CAUSES
    }


def by_model(attributed: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """Returns the number of errors of each model (`acoustic`, `language`) and of neither (`unreachable`)."""
    errors = collections.Counter()
    for cause, values in attributed.items():
        errors[cause.partition("_")[0]] += values["errors"]
    return dict(errors)


def _find_cause(reference, hypothesis, vocabularies, heard_ids) -> Optional[str]:
    if _is_right(reference, hypothesis):
        return None
    if reference is not None and not vocabularies.has(reference):
        return UNREACHABLE
    if id(reference or hypothesis) in heard_ids:
        return HOMOPHONE
    if any(_is_letter(side, vocabularies) for side in (reference, hypothesis) if side):
        return LETTER
    if reference is None or hypothesis is None:
        return DELETION if hypothesis is None else INSERTION
    is_initial_wrong, is_final_wrong, _ = _find_wrong_parts(reference, hypothesis, vocabularies)
    if is_initial_wrong and is_final_wrong:
        return SUBSTITUTION
    return INITIAL if is_initial_wrong else FINAL if is_final_wrong else TONE


def _is_right(reference: Optional[Unit], hypothesis: Optional[Unit]) -> bool:
    both = reference is not None and hypothesis is not None
    return both and reference.text == hypothesis.text != vocabulary.UNKNOWN


def _is_heard(reference: Unit, hypothesis: Unit) -> bool:
    return reference.syllable is not None and reference.syllable == hypothesis.syllable


def _is_letter(unit: Unit, vocabularies: KnownVocabularies) -> bool:
    is_word = unit.text.isascii() and unit.text.isalnum()
    return vocabularies.token_type in _TONES and is_word and not vocabularies.split(unit.syllable)


def _find_wrong_parts(reference: Unit, hypothesis: Unit, vocabularies: KnownVocabularies) -> tuple[bool, ...]:
    """Returns True for each part (initial, final, tone) that differs.

    If a unit has no parts, all parts count as different, unless both units have the same syllable.
    """
    parts = [vocabularies.split(side.syllable) for side in (reference, hypothesis)]
    if None in parts:
        return (not _is_heard(reference, hypothesis),) * _NUM_PARTS
    return tuple(part != other for part, other in zip(*parts))


def _compare(reference: Unit, hypothesis: Unit, vocabularies: KnownVocabularies) -> int:
    """Returns the cost of aligning two texts: 0 if equal, otherwise _EDIT plus the number of wrong parts."""
    if _is_right(reference, hypothesis):
        return 0
    return _EDIT + sum(_find_wrong_parts(reference, hypothesis, vocabularies))


def _compare_syllables(reference: Unit, hypothesis: Unit) -> int:
    """Returns the cost of aligning two syllables, which is slightly lower if their texts are equal."""
    return _EDIT * (not _is_heard(reference, hypothesis)) + (reference.text != hypothesis.text)


def _align(
    reference: Sequence[Unit], hypothesis: Sequence[Unit], compare: Callable[[Unit, Unit], int]
) -> list[tuple[Optional[Unit], Optional[Unit]]]:
    aligned, i, j = [], len(reference), len(hypothesis)
    # If the last units match, at least one shortest alignment pairs them.
    while i and j and not compare(reference[i - 1], hypothesis[j - 1]):
        i, j = i - 1, j - 1
        aligned.append((reference[i], hypothesis[j]))
    costs = [[compare(row, column) for column in hypothesis[:j]] for row in reference[:i]]
    sums = _accumulate(costs, j)
    while i or j:
        if i and j and sums[i][j] == sums[i - 1][j - 1] + costs[i - 1][j - 1]:
            i, j = i - 1, j - 1
            aligned.append((reference[i], hypothesis[j]))
        elif i and sums[i][j] == sums[i - 1][j] + _EDIT:
            i -= 1
            aligned.append((reference[i], None))
        else:
            j -= 1
            aligned.append((None, hypothesis[j]))
    return aligned[::-1]


def _accumulate(costs: Sequence[Sequence[int]], num_columns: int) -> list[list[int]]:
    """Returns the lowest cost of aligning each prefix of the reference with each prefix of the hypothesis."""
    rows = [[column * _EDIT for column in range(num_columns + 1)]]
    for pairs in costs:
        above = rows[-1]
        row = [above[0] + _EDIT]
        for column, cost in enumerate(pairs):
            row.append(min(above[column] + cost, above[column + 1] + _EDIT, row[-1] + _EDIT))
        rows.append(row)
    return rows
