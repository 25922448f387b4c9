"""Fewest edits that turn what was said into what was recognised, on lists of tokens.

In: two sequences of token strings. Out: how many tokens were substituted, inserted and deleted, or the pairs
behind these counts. The alignment is rapidfuzz's Levenshtein; all edits cost one. <unk> in a hypothesis is
always an error, also where the reference holds the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from tfrecord_builder import vocabulary

_NEVER_SAID = f"{vocabulary.UNKNOWN} "  # no token of a reference has white space


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
    tags = [edit.tag for edit in _edit_operations(reference, hypothesis)]
    return Edits(tags.count("replace"), tags.count("insert"), tags.count("delete"), len(reference))


def misrecognised(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """List the pairs of one shortest alignment that differ, from left to right."""
    edits = _edit_operations(reference, hypothesis)
    return [
        Pair(
            None if edit.tag == "insert" else reference[edit.src_pos],
            None if edit.tag == "delete" else hypothesis[edit.dest_pos],
        )
        for edit in edits
    ]


def _edit_operations(reference: Sequence[str], hypothesis: Sequence[str]) -> Levenshtein.Editops:
    known = [_NEVER_SAID if token == vocabulary.UNKNOWN else token for token in hypothesis]
    return Levenshtein.editops(reference, known)
