"""Fewest edits that turn what was said into what was recognised, on lists of tokens.

In: two sequences of token strings. Out: how many tokens were substituted, inserted and deleted, or the pairs
behind these counts. The alignment is rapidfuzz's Levenshtein; all edits cost one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein


class Edits(NamedTuple):
    """Counts of tokens; `reference_length` is the number of tokens in the reference."""

    substitutions: int
    insertions: int
    deletions: int
    reference_length: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.insertions + self.deletions


class Pair(NamedTuple):
    """One aligned position: `reference` is None for an insertion, `hypothesis` is None for a deletion."""

    reference: str | None
    hypothesis: str | None


def count_edits(reference: Sequence[str], hypothesis: Sequence[str]) -> Edits:
    """Count the edits of one shortest alignment; an empty side is allowed."""
    tags = [edit.tag for edit in Levenshtein.editops(reference, hypothesis)]
    return Edits(tags.count("replace"), tags.count("insert"), tags.count("delete"), len(reference))


def misrecognised(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """List the pairs of one shortest alignment that differ, from left to right."""
    edits = Levenshtein.editops(reference, hypothesis)
    return [
        Pair(
            None if edit.tag == "insert" else reference[edit.src_pos],
            None if edit.tag == "delete" else hypothesis[edit.dest_pos],
        )
        for edit in edits
    ]
