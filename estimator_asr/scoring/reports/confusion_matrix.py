"""Confusion matrices of tones, initials and finals, from aligned syllables."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from estimator_asr.scoring import attribution
from tfrecord_builder.tokens import syllables

_NAMES = {"initials": syllables.INITIALS, "finals": syllables.FINALS, "tones": syllables.TONES}


class Matrix(NamedTuple):
    """How often each reference became each hypothesis; `names` are those that occur, in their usual order."""

    names: list[str]
    counts: dict[tuple[str, str], int]

    @property
    def totals(self) -> dict[str, int]:
        """Number of references by name."""
        found = dict.fromkeys(self.names, 0)
        for (reference, _), number in self.counts.items():
            found[reference] += number
        return found


def count_all(positions: Sequence[Sequence[attribution.Position]]) -> dict[str, Matrix]:
    """Returns the matrices of the positions where a syllable was heard as a syllable; none without any."""
    counts = [collections.Counter() for _ in _NAMES]
    for pair, number in collections.Counter(_list_pairs(positions)).items():
        for counter, parts in zip(counts, zip(*pair)):
            counter[parts] += number
    return {kind: _matrix(kind, counter) for kind, counter in zip(_NAMES, counts) if counter}


def _list_pairs(positions: Sequence[Sequence[attribution.Position]]) -> Iterator[tuple]:
    for row in positions:
        for each in row:
            if each.reference and each.hypothesis:
                spoken = (each.reference.syllable or "", each.hypothesis.syllable or "")
                parts = tuple(map(syllables.split_syllable, spoken))
                if None not in parts:
                    yield parts


def _matrix(kind: str, counts: dict) -> Matrix:
    order = {name: index for index, name in enumerate(_NAMES[kind])}
    occurring = {name for pair in counts for name in pair}
    # Finals with er-hua, "ianr", follow the others.
    return Matrix(sorted(occurring, key=lambda name: (order.get(name, len(order)), name)), dict(counts))
