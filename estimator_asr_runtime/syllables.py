"""Initials and finals to syllables, and their times; equals estimator_asr/tasks/sequences.py."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from estimator_asr_runtime import model_json, token_times

# As in tfrecord_builder/tokens/syllables.py.
INITIAL = "zh|ch|sh|[bpmfdtnlgkhjqxrzcs]"
FINAL = "-?[a-zê]+[1-5]"
JOINING = model_json.Joining(
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


def join(tokens: Sequence[str]) -> list[str]:
    """Joins initials and finals; letters, which are capitals, become those of syllable models."""
    return JOINING.join(tokens).lower().split()


def merge(times: token_times.TokenTimes, tokens: Sequence[str]) -> token_times.TokenTimes:
    """Returns the times of syllables from those of their initials and finals."""
    is_initial = [bool(re.fullmatch(INITIAL, token)) for token in tokens]
    is_final = [bool(re.fullmatch(FINAL, token)) for token in tokens]
    ends_syllable = [i > 0 and is_initial[i - 1] and is_final[i] for i in range(len(tokens))]
    firsts = np.flatnonzero(~np.array(ends_syllable, bool))
    return token_times.TokenTimes(
        np.minimum.reduceat(times.starts, firsts),
        np.maximum.reduceat(times.ends, firsts),
        np.minimum.reduceat(times.probs, firsts),
    )
