"""Edit distance between the tokens of a reference and a hypothesis, with the edits of one shortest alignment.

All edits cost 1. <unk> in a hypothesis is always an error, even where the reference has <unk> too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
from rapidfuzz.distance import Levenshtein

from tfrecord_builder.data import vocabulary

_NO_TOKEN = f"{vocabulary.UNKNOWN} "  # equals no reference token, because tokens contain no whitespace
_TAGS = ("replace", "insert", "delete")  # rapidfuzz's names for edits, in the same order as in Edits


class Edits(NamedTuple):
    """Number of edits of each kind, and number of tokens in the reference."""

    substitutions: int
    insertions: int
    deletions: int
    reference_length: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.insertions + self.deletions


class Pair(NamedTuple):
    """A position in an alignment: `reference` is None for an insertion, `hypothesis` for a deletion."""

    reference: Optional[str]
    hypothesis: Optional[str]


def count_edits(reference: Sequence[str], hypothesis: Sequence[str]) -> Edits:
    """Counts the edits in one shortest alignment; either side may be empty."""
    tags = [edit.tag for edit in _edit_operations(reference, hypothesis)]
    return Edits(*map(tags.count, _TAGS), len(reference))


def confused_pairs(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Returns the differing pairs in one shortest alignment, from left to right."""
    return [
        Pair(
            None if edit.tag == "insert" else reference[edit.src_pos],
            None if edit.tag == "delete" else hypothesis[edit.dest_pos],
        )
        for edit in _edit_operations(reference, hypothesis)
    ]


def list_pairs(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the positions of the tokens that one shortest alignment pairs, whether equal or substituted."""
    return [
        pair
        for edit in Levenshtein.opcodes(reference, hypothesis)
        if edit.tag in ("equal", "replace")
        for pair in zip(range(edit.src_start, edit.src_end), range(edit.dest_start, edit.dest_end))
    ]


def count_errors_at(reference: Sequence[str], hypothesis: Sequence[str]) -> np.ndarray:
    """Counts the errors in one shortest alignment at each reference token, and at the end.

    Returns int64 [2, len(reference) + 1]. Row 0 counts the insertions before each token; row 1 is 1 if the
    token is substituted or deleted, otherwise 0.
    """
    counts = np.zeros([2, len(reference) + 1], np.int64)
    for edit in _edit_operations(reference, hypothesis):
        counts[0 if edit.tag == "insert" else 1, edit.src_pos] += 1
    return counts


def split_edits(
    reference: Sequence[str],
    hypothesis: Sequence[str],
    is_inside_reference: Sequence[bool],
    is_inside_hypothesis: Sequence[bool],
) -> tuple[Edits, Edits]:
    """Counts the edits in one shortest alignment inside and outside marked tokens.

    A substitution or deletion is inside if its reference token is marked; an insertion is inside if its
    hypothesis token is marked.
    """
    inside, outside = [], []
    for edit in _edit_operations(reference, hypothesis):
        is_insertion = edit.tag == "insert"
        is_inside = is_inside_hypothesis[edit.dest_pos] if is_insertion else is_inside_reference[edit.src_pos]
        (inside if is_inside else outside).append(edit.tag)
    length = sum(is_inside_reference)
    return (
        Edits(*map(inside.count, _TAGS), length),
        Edits(*map(outside.count, _TAGS), len(reference) - length),
    )


def _edit_operations(reference, hypothesis):
    tokens = [_NO_TOKEN if token == vocabulary.UNKNOWN else token for token in hypothesis]
    return Levenshtein.editops(reference, tokens)
