"""Splits toned pinyin syllables into their parts: "zhuang4" is ("zh", "uang", "4").

Tones are the digits 1 to 5 (5 is neutral), and v is u-umlaut. Finals follow the sound, not the spelling: you3
is ("", "iou", "3") like liu2, ("l", "iou", "2"); ju4 is ("j", "v", "4") like yu4, ("", "v", "4"); the vowel
in zhi, chi, shi, ri, zi, ci, si is "-i". All parts are lower case, so that they cannot be confused with Latin
letters, which are written as capitals.
"""

from __future__ import annotations

import functools
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
# The finals that follow each initial in dictionaries, including rare syllables (biang, duang, fe, pia).
_FINALS_OF = {
    "": "a ai an ang ao e ei en eng er m n ng o ou ê i ia iai ian iang iao ie in ing io iong iou "
    "u ua uai uan uang uei uen ueng uo v van ve vn",
    "b": "a ai an ang ao ei en eng i ia ian iang iao ie in ing o ong u",
    "p": "a ai an ang ao ei en eng i ia ian iao ie in ing o ou u",
    "m": "a ai an ang ao e ei en eng i ian iao ie in ing iou o ou u",
    "f": "a an ang e ei en eng iao o ou u",
    "d": "a ai an ang ao e ei en eng i ia ian iao ie in ing iou ong ou u uan uang uei uen uo",
    "t": "a ai an ang ao e ei eng i ian iao ie ing ong ou u uan uei uen uo",
    "n": "a ai an ang ao e ei en eng i ia ian iang iao ie in ing iou ong ou u uan uen uo v ve",
    "l": "a ai an ang ao e ei en eng i ia ian iang iao ie in ing iou o ong ou u uan uen uo v ve",
    "g": "a ai an ang ao e ei en eng ong ou u ua uai uan uang uei uen uo",
    "k": "a ai an ang ao e ei en eng ong ou u ua uai uan uang uei uen uo",
    "h": "a ai an ang ao e ei en eng m ng ong ou u ua uai uan uang uei uen uo",
    **dict.fromkeys("jqx", "i ia ian iang iao ie in ing iong iou v van ve vn"),
    "zh": "a ai an ang ao e ei en eng -i ong ou u ua uai uan uang uei uen uo",
    "ch": "a ai an ang ao e en eng -i ong ou u ua uai uan uang uei uen uo",
    "sh": "a ai an ang ao e ei en eng -i ou u ua uai uan uang uei uen uo",
    "r": "an ang ao e en eng -i ong ou u ua uan uei uen uo",
    "z": "a ai an ang ao e ei en eng -i ong ou u uan uei uen uo",
    "c": "a ai an ang ao e ei en eng -i ong ou u uan uei uen uo",
    "s": "a ai an ang ao e en eng -i ong ou u uan uei uen uo",
}
_FINALS_OF = {initial: frozenset(finals.split()) for initial, finals in _FINALS_OF.items()}

# Irregular spellings of syllables without an initial; in regular ones, y or w replaces i or u: yan is i + an.
_ZERO_INITIAL = {"yi": "i", "yin": "in", "ying": "ing", "you": "iou", "wu": "u", "wei": "uei", "wen": "uen"}
_ZERO_INITIAL |= {"yu": "v", "yue": "ve", "yuan": "van", "yun": "vn", "r": "er"}
_ZERO_INITIAL |= {"y": "", "w": ""}  # not syllables by themselves
_GLIDES = {"y": "i", "w": "u"}
_CONTRACTED = {"iu": "iou", "ui": "uei", "un": "uen"}
_UMLAUT = {"u": "v", "ue": "ve", "uan": "van", "un": "vn"}  # v is written as u after j, q and x

INITIAL = "zh|ch|sh|[bpmfdtnlgkhjqxrzcs]"  # patterns for tokens of type initial_final
FINAL = "-?[a-zê]+[1-5]"
# Patterns and replacements, applied in order, that turn initials and finals separated by two spaces into
# syllables separated by one space. The patterns mean the same in Python's re and in TensorFlow's RE2.
JOIN_RULES = (
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
)


@functools.lru_cache(maxsize=1 << 14)
def split_syllable(token: str) -> Optional[tuple[str, str, str]]:
    """Splits a toned syllable into (initial, final, tone).

    The parts are elements of INITIALS, FINALS and TONES. Er-hua adds "r" to the final: "dianr3" is ("d",
    "ianr", "3"), and the suffix "r5" alone is ("", "er", "5"). Returns None if the token is not a syllable.
    """
    spelling, tone = token[:-1], token[-1:]
    if not spelling or tone not in TONES:
        return None
    initial, final = _split_toneless(spelling)
    if final is None and spelling.endswith("r"):
        initial, final = _split_toneless(spelling[:-1])
        final = None if final is None else f"{final}r"
    return None if final is None else (initial, final, tone)


def exists(token: str) -> bool:
    """Returns True if a token is an existing Mandarin syllable with a tone, with or without er-hua.

    "jang1", for example, can be split into an initial, a final and a tone, but does not exist.
    """
    initial, final, _ = split_syllable(token) or ("", "", "")
    return not {final, final.removesuffix("r")}.isdisjoint(_FINALS_OF[initial])


def without_tone(token: str) -> str:
    """Removes the tone from a syllable; applies `capitalise` to any other token."""
    return token[:-1] if split_syllable(token) else capitalise(token)


def capitalise(token: str) -> str:
    """Capitalises Latin letters (A, ZH), to distinguish them from toneless syllables and their parts.

    A token with any other character, such as a digit, is returned unchanged.
    """
    return token.upper() if token.isascii() and token.isalpha() else token


def split_initial_final(token: str) -> tuple[str, ...]:
    """Splits a syllable into its initial, if it has one, and its toned final: zhong1 is ("zh", "ong1").

    Any other token remains one token (see capitalise), and so does the suffix r5, which would become er5.
    """
    parts = split_syllable(token)
    if parts is None or token[:-1] == "r":
        return (capitalise(token),)
    initial, final, tone = parts
    return tuple(filter(None, (initial, final + tone)))


def part_matrix(tokens: Sequence[str]) -> np.ndarray:
    """Returns a matrix of each token's parts, so that tokens that sound alike can share parameters.

    The matrix is float32 [len(tokens), num_parts], with zeros and ones; the row of a token that is not a
    toned syllable is all zeros. The columns stand, in a fixed order, for initials, finals, tones, all pairs
    of a final and a tone, and er-hua.
    """
    matrix = np.zeros([len(tokens), len(_COLUMNS)], np.float32)
    for row, token in enumerate(tokens):
        matrix[row, [_COLUMNS[part] for part in _list_parts(token)]] = 1.0
    return matrix


_COLUMNS = {
    part: column
    for column, part in enumerate(
        [
            *(("initial", initial) for initial in INITIALS),
            *(("final", final) for final in FINALS),
            *(("tone", tone) for tone in TONES),
            *(("toned final", final, tone) for final in FINALS for tone in TONES),
            ("er-hua",),
        ]
    )
}


def _list_parts(token: str) -> list[tuple[str, ...]]:
    initial, final, tone = split_syllable(token) or (None, None, None)
    if final is None:
        return []
    has_er_hua = final.endswith("r") and (initial, final) != ("", "er")
    final = final[:-1] if has_er_hua else final
    parts = [("initial", initial), ("final", final), ("tone", tone), ("toned final", final, tone)]
    return [*parts, ("er-hua",)] if has_er_hua else parts


def _split_toneless(spelling: str) -> tuple[str, Optional[str]]:
    """Splits a toneless syllable into its initial and its final; the final is None if it is invalid."""
    if spelling in ("m", "n", "ng"):  # interjections
        return "", spelling
    if spelling[0] in "yw" or spelling == "r":
        final = _ZERO_INITIAL.get(spelling, _GLIDES.get(spelling[0], "") + spelling[1:])
        return "", final if final in FINALS else None
    initial = re.match(f"{INITIAL}|", spelling)[0]
    final = spelling[len(initial) :]
    if initial in ("j", "q", "x"):
        final = _UMLAUT.get(final, final)
    if initial in ("zh", "ch", "sh", "r", "z", "c", "s") and final == "i":
        final = "-i"
    if initial in ("n", "l") and final == "ue":  # lue4 is another spelling of lve4
        final = "ve"
    final = _CONTRACTED.get(final, final)
    return initial, final if final in FINALS else None
