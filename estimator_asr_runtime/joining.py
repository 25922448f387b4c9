"""Joins tokens into text, and initials and finals into syllables; defines which tokens are syllables.

Equivalent to vocabulary.py and syllables.py in tfrecord_builder/data, saved_model/model_pairs.py and
estimator_asr/decoding/sequences.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import token_times

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
# Patterns of syllables. Other tokens that the language model lacks are copied to the transcript.
SYLLABLES = {
    "syllable": "[a-zê]+[1-5]|<unk>",
    "initial_final": "[a-zê]+[1-5]|<unk>",  # initials and finals are joined before the match
    "toneless": "[a-zê]+|<unk>",
}


def join_syllables(tokens: Sequence[str]) -> list[str]:
    """Joins initials and finals into syllables; letters are lowercased, as in syllable models."""
    return JOININGS["initial_final"].join(tokens).lower().split()


def merge_times(times: token_times.TokenTimes, tokens: Sequence[str]) -> token_times.TokenTimes:
    """Returns the times of syllables, merged from the times of their initials and finals."""
    is_initial = [bool(re.fullmatch(INITIAL, token)) for token in tokens]
    is_final = [bool(re.fullmatch(FINAL, token)) for token in tokens]
    ends_syllable = [i > 0 and is_initial[i - 1] and is_final[i] for i in range(len(tokens))]
    firsts = np.flatnonzero(~np.array(ends_syllable, bool))
    return token_times.TokenTimes(
        np.minimum.reduceat(times.starts, firsts),
        np.maximum.reduceat(times.ends, firsts),
        np.minimum.reduceat(times.probs, firsts),
    )
