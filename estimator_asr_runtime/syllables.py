"""Joins initials and finals into syllables and merges times; like estimator_asr/decoding/sequences.py."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from estimator_asr_runtime import joining, token_times


def join(tokens: Sequence[str]) -> list[str]:
    """Joins initials and finals into syllables; letters are lowercased, as in syllable models."""
    return joining.JOININGS["initial_final"].join(tokens).lower().split()


def merge(times: token_times.TokenTimes, tokens: Sequence[str]) -> token_times.TokenTimes:
    """Returns the times of syllables, given those of their initials and finals."""
    is_initial = [bool(re.fullmatch(joining.INITIAL, token)) for token in tokens]
    is_final = [bool(re.fullmatch(joining.FINAL, token)) for token in tokens]
    ends_syllable = [i > 0 and is_initial[i - 1] and is_final[i] for i in range(len(tokens))]
    firsts = np.flatnonzero(~np.array(ends_syllable, bool))
    return token_times.TokenTimes(
        np.minimum.reduceat(times.starts, firsts),
        np.maximum.reduceat(times.ends, firsts),
        np.minimum.reduceat(times.probs, firsts),
    )
