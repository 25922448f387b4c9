"""Counts of tones, initials and finals, from the counts of tokens."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Optional

from tfrecord_builder import syllables

ER_HUA = "er-hua"
NO_INITIAL = "none"
OTHER = "other"
INITIALS = tuple(initial or NO_INITIAL for initial in syllables.INITIALS)

_FINALS = {*syllables.FINALS, "e"}  # er without its r
_Parts = tuple[Optional[str], Optional[str], Optional[str]]  # initial, final, tone


def count(token_counts: Mapping[str, int], token_type: str) -> dict[str, dict[str, int]]:
    """Counts the "tones", "initials" and "finals" of tokens; empty for a token type that is not pinyin.

    A final with er-hua counts as itself and as ER_HUA; what is not pinyin (letters, digits) as tone OTHER.
    """
    if token_type not in _SPLIT:
        return {}
    found = {name: collections.Counter() for name in ("tones", "initials", "finals")}
    for token, number in token_counts.items():
        initial, final, tone = _SPLIT[token_type](token)
        if initial is final is None:
            tone = OTHER
        if final and final.endswith("r") and final != "er":
            final = final[:-1]
            found["finals"][ER_HUA] += number
        for name, part in (("initials", initial), ("finals", final), ("tones", tone)):
            if part is not None:
                found[name][part] += number
    if token_type == "toneless":
        del found["tones"]
    return found


def _split_syllable(token: str) -> _Parts:
    initial, final, tone = syllables.split_syllable(token) or (None, None, None)
    return NO_INITIAL if initial == "" else initial, final, tone


def _split_toneless(token: str) -> _Parts:
    return (*_split_syllable(f"{token}5")[:2], None)


def _split_part(token: str) -> _Parts:
    if token in syllables.INITIALS:
        return token, None, None
    final, tone = token[:-1], token[-1:]
    is_final = tone in syllables.TONES and final.removesuffix("r") in _FINALS
    return (None, final, tone) if is_final else (None, None, None)


_SPLIT = {"syllable": _split_syllable, "toneless": _split_toneless, "initial_final": _split_part}
