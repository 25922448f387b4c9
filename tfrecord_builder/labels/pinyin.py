"""Converts hanzi to toned syllables with pypinyin's dictionary and the user's; spelled as in syllables.

    Reader().read("o p a淮海店")  ->  o p a huai2 hai3 dian4

Text is segmented from left to right into the longest words that either dictionary has, as pypinyin does it.
The user's phrases are not added to pypinyin's tables, which are global: they belong to one Reader. Without
tone sandhi only 一 and 不 change, in the phrases that pypinyin spells so: 一个 is yi2 ge4, 一天 yi1 tian1.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Optional

import pypinyin
from pypinyin.seg import mmseg

from tfrecord_builder.labels import context_readings, normalisation, tone_sandhi

_TONED = re.compile("[a-z]+[1-5]")


class Reader:
    """Reads transcripts."""

    def __init__(self, user_phrases: Optional[Mapping[str, Sequence[str]]] = None, has_sandhi: bool = False):
        """Takes syllables of phrases or single hanzi, exempt from tone sandhi, and whether to apply it."""
        self._user_phrases = dict(user_phrases or {})
        self._user_lengths = sorted({len(phrase) for phrase in self._user_phrases}, reverse=True)
        self._has_sandhi = has_sandhi

    def read(self, transcript: str) -> list[str]:
        """Returns the toned syllables of a normalised phrase.

        A character that is not a hanzi, or a hanzi without a reading, is a token of its own.
        """
        tokens: list[str] = []
        for run in normalisation.HANZI_RUN.split(transcript):
            tokens += self._read_hanzi(run) if normalisation.is_hanzi(run[:1]) else run.replace(" ", "")
        return tokens

    def _read_hanzi(self, hanzi: str) -> list[str]:
        words = self._segment(hanzi)
        syllables = [syllable for word in words for syllable in self._user_phrases.get(word) or _read(word)]
        if not self._has_sandhi:
            return syllables
        is_fixed = [word in self._user_phrases for word in words for _ in word]
        grouped = self._group_words(words)
        syllables = context_readings.correct(grouped, syllables, is_fixed)
        return tone_sandhi.change_tones(grouped, syllables, is_fixed)

    def _segment(self, hanzi: str) -> list[str]:
        words: list[str] = []
        start = 0
        if not self._user_phrases:
            return self._cut(hanzi)
        while start < len(hanzi):
            for word in self._cut(hanzi[start:]):
                phrase = self._find_phrase(hanzi, start)
                words.append(phrase if len(phrase) >= len(word) else word)
                start += len(words[-1])
                if len(phrase) > len(word):
                    break  # pypinyin's next word would start inside the phrase
        return words

    def _cut(self, hanzi: str) -> list[str]:
        """Returns the longest words of pypinyin's dictionary from left to right, those of jieba with sandhi.

        Those are cut again; without them 人参加 is 人参 (ginseng) and 加.
        """
        parts = tone_sandhi.segment(hanzi) if self._has_sandhi else [hanzi]
        return [word for part in parts for word in mmseg.seg.cut(part)]

    def _find_phrase(self, hanzi: str, start: int) -> str:
        """Returns the longest of the user's phrases that starts here."""
        phrases = (hanzi[start : start + length] for length in self._user_lengths)
        return next((phrase for phrase in phrases if phrase in self._user_phrases), "")

    def _group_words(self, words: Sequence[str]) -> list[str]:
        """Returns the words for tone sandhi: the user's phrases, and jieba's between them."""
        found: list[str] = []
        for is_user_phrase, group in itertools.groupby(words, self._is_user_phrase):
            phrases = list(group)
            found += phrases if is_user_phrase else tone_sandhi.segment("".join(phrases))
        return found

    def _is_user_phrase(self, word: str) -> bool:
        return len(word) > 1 and word in self._user_phrases


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
