"""Reference and hypothesis aligned in a Markdown table for TensorBoard's TEXT tab, differences in bold."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

_COLUMNS = 16  # a wider table does not fit the page
_NOTHING = "·"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~])")


def compare(reference: Sequence[str], hypothesis: Sequence[str]) -> str:
    """Returns Markdown: each token of the reference above the aligned one, a dot for no token."""
    pairs = []
    for edit in Levenshtein.opcodes(reference, hypothesis):
        expected = reference[edit.src_start : edit.src_end]
        got = hypothesis[edit.dest_start : edit.dest_end]
        pairs.extend(itertools.zip_longest(expected, got))
    wrong = sum(expected != got for expected, got in pairs)
    tables = [_table(pairs[start : start + _COLUMNS]) for start in range(0, len(pairs), _COLUMNS)]
    return "\n\n".join([f"{wrong} wrong of {len(reference)}", *tables])


def _table(pairs):
    references = [_escape(expected) for expected, _ in pairs]
    hypotheses = [_escape(got) if got == expected else f"**{_escape(got)}**" for expected, got in pairs]
    rows = [["reference", *references], ["---"] * (len(pairs) + 1), ["hypothesis", *hypotheses]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escape(token):
    return _NOTHING if token is None else _MARKDOWN.sub(r"\\\1", html.escape(token))
