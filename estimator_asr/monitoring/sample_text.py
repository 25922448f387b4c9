"""Reference against hypothesis as a table for TensorBoard's text tab, what differs in bold."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Optional

from rapidfuzz.distance import Levenshtein

_COLUMNS = 16  # a wider table does not fit the page
_NOTHING = "·"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~])")


def compare(reference: Sequence[str], hypothesis: Sequence[str]) -> str:
    """Returns Markdown: each token of the reference above the one that stands for it, a dot where none does.

    Args:
        reference, hypothesis: tokens or characters.
    """
    pairs = list(_align(reference, hypothesis))
    wrong = sum(said != heard for said, heard in pairs)
    tables = [_table(pairs[start : start + _COLUMNS]) for start in range(0, len(pairs), _COLUMNS)]
    return "\n\n".join([f"{wrong} wrong of {len(reference)}", *tables])


def _align(reference, hypothesis) -> Iterator[tuple[Optional[str], Optional[str]]]:
    """Yields the pairs of one shortest alignment; None stands against what was put in or left out."""
    for step in Levenshtein.opcodes(reference, hypothesis):
        said = reference[step.src_start : step.src_end]
        heard = hypothesis[step.dest_start : step.dest_end]
        yield from itertools.zip_longest(said, heard)


def _table(pairs):
    said = [_escape(said) for said, _ in pairs]
    heard = [_escape(heard) if heard == said else f"**{_escape(heard)}**" for said, heard in pairs]
    rows = [["reference", *said], ["---"] * (len(pairs) + 1), ["hypothesis", *heard]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escape(token):
    return _NOTHING if token is None else _MARKDOWN.sub(r"\\\1", html.escape(token))
