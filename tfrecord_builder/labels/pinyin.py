"""Converts hanzi to toned syllables with pypinyin's dictionary and the user's; spelled as in syllables.

Text is segmented from left to right into the longest words that either dictionary has, as pypinyin does it.
The user's phrases are not added to pypinyin's tables, which are global: they belong to one Reader.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

import pypinyin
from pypinyin import constants
from pypinyin.seg import mmseg

from tfrecord_builder.labels import tone_sandhi, word_segmentation

_TONED = re.compile("[a-z]+[1-5]")


class Reader:
    """Reads hanzi."""

    def __init__(self, user_phrases: Optional[Mapping[str, Sequence[str]]] = None, has_sandhi: bool = False):
        """Configures what differs from pypinyin.

        Args:
            user_phrases: phrase or single hanzi to its syllables, to which no tone sandhi applies.
            has_sandhi: whether to apply tone sandhi; otherwise only 一 and 不 change, in the phrases that
                pypinyin's dictionary spells so.
        """
        self._user_phrases = dict(user_phrases or {})
        self._has_sandhi = has_sandhi
        self._user_lengths = _lengths_by_beginning(self._user_phrases)

    def read(self, hanzi: str) -> list[str]:
        """Returns a syllable per hanzi of a phrase; a hanzi without a reading is returned itself."""
        words = self._cut(hanzi)
        syllables = [syllable for word in words for syllable in self._user_phrases.get(word) or _read(word)]
        if not self._has_sandhi:
            return syllables
        is_fixed = [word in self._user_phrases for word in words for _ in word]
        return tone_sandhi.change_tones(self._segment(words), syllables, is_fixed)

    def _segment(self, words: Sequence[str]) -> list[str]:
        """Returns the words for tone sandhi: the user's phrases, and jieba's between them."""
        found: list[str] = []
        for is_user_phrase, group in itertools.groupby(words, self._is_user_phrase):
            phrases = list(group)
            found += phrases if is_user_phrase else word_segmentation.cut("".join(phrases))
        return found

    def _is_user_phrase(self, word: str) -> bool:
        return len(word) > 1 and word in self._user_phrases

    def _cut(self, hanzi: str) -> list[str]:
        words, begin, phrases = [], 0, constants.PHRASES_DICT
        while begin < len(hanzi):
            word = self._longest_word(hanzi, begin, phrases)
            if not word and hanzi[begin:] in mmseg.p_set:
                phrases = {}  # pypinyin finds no word in a rest that is the prefix of a phrase
            words.append(word or hanzi[begin])
            begin += len(words[-1])
        return words

    def _longest_word(self, hanzi: str, begin: int, phrases: Mapping) -> str:
        first = hanzi[begin]
        lengths = {*_phrase_lengths().get(first, ()), *self._user_lengths.get(first, ())}
        for length in sorted(lengths, reverse=True):
            word = hanzi[begin : begin + length]
            if word in self._user_phrases or word in phrases:
                return word
        return ""


def dictionary_readings(character: str) -> list[str]:
    """Returns the toned syllables that pypinyin's dictionary has for one hanzi; [] for other characters."""
    found = _pypinyin(pypinyin.pinyin, character, heteronym=True)
    return [reading for reading in found[0] if _TONED.fullmatch(reading)] if found else []


@functools.lru_cache(maxsize=1 << 16)
def _read(word: str) -> tuple[str, ...]:
    readings = _pypinyin(pypinyin.lazy_pinyin, word)
    return tuple(reading if _TONED.fullmatch(reading) else hanzi for hanzi, reading in zip(word, readings))


def _pypinyin(function, hanzi, **options):
    """Calls pypinyin with the spelling of syllables.py; an unknown hanzi returns no toned syllable."""
    return function(
        hanzi, style=pypinyin.Style.TONE3, neutral_tone_with_five=True, v_to_u=False, errors=list, **options
    )


@functools.cache
def _phrase_lengths() -> dict[str, set[int]]:
    return _lengths_by_beginning(constants.PHRASES_DICT)


def _lengths_by_beginning(phrases: Iterable[str]) -> dict[str, set[int]]:
    lengths: dict[str, set[int]] = {}
    for phrase in phrases:
        lengths.setdefault(phrase[0], set()).add(len(phrase))
    return lengths
