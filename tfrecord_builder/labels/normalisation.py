"""Normalises transcripts: every transcript goes through STEPS, in order.

    normalise("\ufeffＯ Ｐ  Ａ（淮海 店）\r\n")  ->  "o p a淮海店"

To add a rule, write a function from text to text and enter it in STEPS. With --numbers=read, numbers have
become hanzi before (numerals.py).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable

# 〇, the unified ideographs with extension A, the compatibility ideographs, and extensions B and later.
_HANZI = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HANZI_RUN = re.compile(f"([{_HANZI}]+)")
_SPACE_NEXT_TO_HANZI = re.compile(f"(?<=[{_HANZI}]) | (?=[{_HANZI}])")
_APOSTROPHES = re.compile("['\u2019\u02bc]")


def normalise(transcript: str) -> str:
    """Returns the normalised transcript; a second normalisation changes nothing."""
    return functools.reduce(lambda text, step: step(text), STEPS, transcript)


def split_phrases(transcript: str) -> list[str]:
    """Returns the normalised phrases of a transcript, which end at punctuation."""
    folded = _join_elisions(_fold(transcript))
    text = "".join("\n" if unicodedata.category(c)[0] == "P" else c for c in folded)
    return [phrase for phrase in map(normalise, text.split("\n")) if phrase]


def find_traditional(characters: Iterable[str]) -> dict[str, str]:
    """Returns the traditional characters whose simplified ones are there too, each with that one."""
    import wetext  # slow to import

    hanzi = "".join(sorted(filter(is_hanzi, characters)))
    simplified = wetext.Normalizer(lang="zh", operator="tn", traditional_to_simple=True).normalize(hanzi)
    return {one: other for one, other in zip(hanzi, simplified) if one != other and other in hanzi}


def is_hanzi(text: str) -> bool:
    """True for one Chinese character, or several."""
    return HANZI_RUN.fullmatch(text) is not None


def _fold(text: str) -> str:
    """NFKC (full-width letters become ASCII) in lower case; some letters compose only in lower case."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())


def _join_elisions(text: str) -> str:
    """An apostrophe does not separate words: it's becomes its."""
    return _APOSTROPHES.sub("", text)


def _drop_punctuation(text: str) -> str:
    return "".join(map(_keep_or_space, text))


@functools.cache
def _keep_or_space(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cf", "Me") or "VARIATION SELECTOR" in unicodedata.name(character, ""):
        return ""  # byte order mark, zero-width joiners, and how the character before is drawn
    return " " if category[0] in "PSZC" else character


def _drop_spaces(text: str) -> str:
    """A single space remains between two words, none next to a hanzi."""
    return _SPACE_NEXT_TO_HANZI.sub("", " ".join(text.split()))


STEPS = (_fold, _join_elisions, _drop_punctuation, _drop_spaces)
