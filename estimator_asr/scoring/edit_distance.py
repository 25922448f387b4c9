"""Edit distance between the tokens of a reference and a hypothesis, with the edits of one shortest alignment.

All edits cost one. <unk> in a hypothesis is always an error, also where the reference has the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
from rapidfuzz.distance import Levenshtein

from tfrecord_builder import vocabulary

_NO_TOKEN = f"{vocabulary.UNKNOWN} "  # tokens of a reference contain no whitespace


class Edits(NamedTuple):
    """Numbers of edited tokens, and of tokens in the reference."""

    substitutions: int
    insertions: int
    deletions: int
    reference_length: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.insertions + self.deletions


class Pair(NamedTuple):
    """An aligned position: `reference` is None for an insertion, `hypothesis` is None for a deletion."""

    reference: Optional[str]
    hypothesis: Optional[str]


def count_edits(reference: Sequence[str], hypothesis: Sequence[str]) -> Edits:
    """Counts the edits of one shortest alignment; either side may be empty."""
    tags = [edit.tag for edit in _edit_operations(reference, hypothesis)]
    return Edits(tags.count("replace"), tags.count("insert"), tags.count("delete"), len(reference))


def confused_pairs(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """Returns the pairs of one shortest alignment that differ, from left to right."""
    return [
        Pair(
            None if edit.tag == "insert" else reference[edit.src_pos],
            None if edit.tag == "delete" else hypothesis[edit.dest_pos],
        )
        for edit in _edit_operations(reference, hypothesis)
    ]


def count_errors_at(reference: Sequence[str], hypothesis: Sequence[str]) -> np.ndarray:
    """Counts the errors of one shortest alignment at each place of the reference.

    Returns:
        int64 [2, len(reference) + 1]: insertions before the token, and 1 where it is substituted or deleted;
        the last place is the end.
    """
    counts = np.zeros([2, len(reference) + 1], np.int64)
    for edit in _edit_operations(reference, hypothesis):
        counts[0 if edit.tag == "insert" else 1, edit.src_pos] += 1
    return counts


def _edit_operations(reference, hypothesis):
    known = [_NO_TOKEN if token == vocabulary.UNKNOWN else token for token in hypothesis]
    return Levenshtein.editops(reference, known)
