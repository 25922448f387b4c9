"""How tokens become text, and which tokens are syllables, for each token type.

Equivalent to vocabulary.py and syllables.py of tfrecord_builder/data, and saved_model/model_pairs.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

INITIAL = "zh|ch|sh|[bpmfdtnlgkhjqxrzcs]"
FINAL = "-?[a-zê]+[1-5]"


class Joining(NamedTuple):
    """The separator between tokens, and regular expressions with replacements, applied in order."""

    separator: str
    rules: tuple[tuple[str, str], ...] = ()

    def join(self, tokens: Iterable[str]) -> str:
        """Joins tokens into text."""
        text = self.separator.join(tokens)
        for pattern, replacement in self.rules:
            text = re.sub(pattern, replacement, text)
        return text


_INITIAL_FINAL = Joining(
    "  ",
    (
        (rf"(^| )({INITIAL})  ({FINAL})( |$)", r"\1\2\3\4"),
        (rf"(^| )({INITIAL})iou(r?[1-5])", r"\1\2iu\3"),
        (rf"(^| )({INITIAL})uei(r?[1-5])", r"\1\2ui\3"),
        (rf"(^| )({INITIAL})uen(r?[1-5])", r"\1\2un\3"),
        (rf"(^| )({INITIAL})-i", r"\1\2i"),
        (r"(^| )([jqx])v", r"\1\2u"),
        (r"(^| )i((?:n|ng)?r?[1-5])", r"\1yi\2"),
        (r"(^| )i", r"\1y"),
        (r"(^| )u(r?[1-5])", r"\1wu\2"),
        (r"(^| )u", r"\1w"),
        (r"(^| )v", r"\1yu"),
        ("  ", " "),
    ),
)
JOININGS = {
    "syllable": Joining(" "),
    "toneless": Joining(" "),
    "initial_final": _INITIAL_FINAL,
    "character": Joining("", (("<space>", " "),)),
    "bpe": Joining("", (("\u2581", " "), ("^ ", ""))),
}
# Patterns of syllables. Other tokens that the language model lacks are output unchanged.
SYLLABLES = {
    "syllable": "[a-zê]+[1-5]|<unk>",
    "initial_final": "[a-zê]+[1-5]|<unk>",  # initials and finals are joined before the match
    "toneless": "[a-zê]+|<unk>",
}
