"""Toned pinyin syllables and their parts: "zhuang4" is ("zh", "uang", "4").

Tones are the digits 1 to 5 (5 is neutral), v stands for u-umlaut. Finals are named as they sound, not as they
are spelled, so that equal sounds share a name: you3 is ("", "iou", "3") as liu2 is ("l", "iou", "2"); ju4 is
("j", "v", "4") as yu4 is ("", "v", "4"); the vowel of zhi, chi, shi, ri, zi, ci, si is "-i".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

import numpy as np

INITIALS = ("", *"b p m f d t n l g k h j q x zh ch sh r z c s".split())
FINALS = tuple(
    "a o e ê ai ei ao ou an en ang eng ong er -i "
    "i ia io ie iai iao iou ian in iang ing iong "
    "u ua uo uai uei uan uen uang ueng v ve van vn m n ng".split()
)
TONES = tuple("12345")

# Others with y or w change that letter alone: yan is i + an, wang is u + ang.
_ZERO_INITIAL = {"yi": "i", "yin": "in", "ying": "ing", "you": "iou", "wu": "u", "wei": "uei", "wen": "uen"}
_ZERO_INITIAL |= {"yu": "v", "yue": "ve", "yuan": "van", "yun": "vn", "r": "er"}
_ZERO_INITIAL |= {"y": "", "w": ""}  # no syllables by themselves
_GLIDES = {"y": "i", "w": "u"}
_CONTRACTED = {"iu": "iou", "ui": "uei", "un": "uen"}
_UMLAUT = {"u": "v", "ue": "ve", "uan": "van", "un": "vn"}  # how v is written after j, q and x
_INITIAL = re.compile("zh|ch|sh|[bpmfdtnlgkhjqxrzcs]|")


def split_syllable(token: str) -> Optional[tuple[str, str, str]]:
    """Splits a toned syllable into (initial, final, tone).

    Er-hua stays in the final: "dianr3" is ("d", "ianr", "3"); a suffix on its own, "r5", is ("", "er", "5").

    Returns:
      One each of INITIALS, FINALS (with an "r" behind it for er-hua) and TONES; None where it is no syllable.
    """
    spelling, tone = token[:-1], token[-1:]
    if not spelling or tone not in TONES:
        return None
    initial, final = _split_toneless(spelling)
    if final is None and spelling.endswith("r"):
        initial, final = _split_toneless(spelling[:-1])
        final = None if final is None else f"{final}r"
    return None if final is None else (initial, final, tone)


def without_tone(token: str) -> str:
    """Gives a syllable without its tone; what is no syllable stays, see capitalise."""
    return token[:-1] if split_syllable(token) else capitalise(token)


def capitalise(token: str) -> str:
    """Writes a Latin letter as a capital, which no syllable without tone, initial or final is: A, ZH.

    Tokens with a digit or of another script stay.
    """
    return token.upper() if token.isascii() and token.isalpha() else token


def part_matrix(tokens: Sequence[str]) -> np.ndarray:
    """Tells which parts each token holds, so that tokens that sound alike can share what a model learns.

    Args:
      tokens: of any vocabulary; a row of what is no toned syllable is zero.

    Returns:
      float32 [len(tokens), num_parts] of 0 and 1. Columns, in a fixed order: initials, finals, tones, each
      final with each tone, er-hua.
    """
    matrix = np.zeros([len(tokens), len(_COLUMNS)], np.float32)
    for row, token in enumerate(tokens):
        matrix[row, [_COLUMNS[part] for part in _parts(token)]] = 1.0
    return matrix


def _parts(token: str) -> list[tuple]:
    split = split_syllable(token)
    if split is None:
        return []
    initial, final, tone = split
    has_er_hua = final.endswith("r") and (initial, final) != ("", "er")
    final = final[:-1] if has_er_hua else final
    parts = [("initial", initial), ("final", final), ("tone", tone), ("toned final", final, tone)]
    return [*parts, ("er-hua",)] if has_er_hua else parts


def _column_index() -> dict[tuple, int]:
    columns = [("initial", initial) for initial in INITIALS] + [("final", final) for final in FINALS]
    columns += [("tone", tone) for tone in TONES]
    columns += [("toned final", final, tone) for final in FINALS for tone in TONES] + [("er-hua",)]
    return {column: index for index, column in enumerate(columns)}


_COLUMNS = _column_index()


def _split_toneless(spelling: str) -> tuple[str, Optional[str]]:
    """Gives the initial, and the final or None if there is no such final."""
    if spelling in ("m", "n", "ng"):  # interjections
        return "", spelling
    if spelling[0] in "yw" or spelling == "r":
        final = _ZERO_INITIAL.get(spelling, _GLIDES.get(spelling[0], "") + spelling[1:])
        return "", final if final in FINALS else None
    initial = _INITIAL.match(spelling).group()
    final = spelling[len(initial) :]
    if initial in ("j", "q", "x"):
        final = _UMLAUT.get(final, final)
    if initial in ("zh", "ch", "sh", "r", "z", "c", "s") and final == "i":
        final = "-i"
    if initial in ("n", "l") and final == "ue":  # lue4 is another spelling of lve4
        final = "ve"
    final = _CONTRACTED.get(final, final)
    return initial, final if final in FINALS else None
