"""Converts hanzi to toned syllables (spelled as in syllables.py) with pypinyin's dictionary and the user's.

    PinyinReader().read("o p a淮海店")  ->  o p a huai2 hai3 dian4

Text is segmented from left to right into the longest words in either dictionary, as pypinyin does. The user's
phrases belong to one PinyinReader; they are not added to pypinyin's tables, which are global. Even without
tone sandhi, 一 and 不 have changed tones in some of pypinyin's phrases: 一个 is yi2 ge4, but 一天 yi1 tian1.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Optional

import pypinyin
from pypinyin import constants
from pypinyin.seg import mmseg

from tfrecord_builder import errors
from tfrecord_builder.corpora import text_files
from tfrecord_builder.data import syllables
from tfrecord_builder.labels import context_readings, normalisation, tokenisation, tone_sandhi

_TONED = re.compile("[a-z]+[1-5]")
_LOOSE = frozenset("的了都谁是")  # not joined if jieba separates them: 都会 is dou1 hui4, not du1 hui4
_FORM = "phrase<TAB>pin1 yin1"  # format of a line in the user's dictionary


class PinyinReader:
    """Converts transcripts to toned syllables with pypinyin's dictionary and one user's phrases."""

    def __init__(self, user_phrases: Optional[Mapping[str, Sequence[str]]] = None, has_sandhi: bool = False):
        """Stores the syllables of phrases or single hanzi; if has_sandhi, tone sandhi changes the others."""
        self._user_phrases = dict(user_phrases or {})
        self._user_lengths = sorted({len(phrase) for phrase in self._user_phrases}, reverse=True)
        self._has_sandhi = has_sandhi

    def read(self, transcript: str) -> list[str]:
        """Returns the toned syllables of a normalised phrase.

        Hanzi without a reading, and all other characters except spaces, are returned unchanged as tokens.
        """
        tokens: list[str] = []
        for run in normalisation.HANZI_RUN.split(transcript):
            tokens += self._read_hanzi(run) if normalisation.is_hanzi(run[:1]) else run.replace(" ", "")
        return tokens

    def _read_hanzi(self, hanzi: str) -> list[str]:
        words = self._segment(hanzi)
        readings = [syllable for word in words for syllable in self._user_phrases.get(word) or _read(word)]
        if not self._has_sandhi:
            return readings
        is_fixed = [word in self._user_phrases for word in words for _ in word]
        # The words for tone sandhi are the user's phrases, and jieba's words between them.
        phrases, grouped = {word for word in words if len(word) > 1 and word in self._user_phrases}, []
        for is_phrase, group in itertools.groupby(words, phrases.__contains__):
            neighbours = list(group)
            grouped += neighbours if is_phrase else tone_sandhi.segment("".join(neighbours))
        corrected = context_readings.correct(grouped, readings, is_fixed)
        return tone_sandhi.change_tones(grouped, corrected, is_fixed)

    def _segment(self, hanzi: str) -> list[str]:
        if not self._user_phrases:
            return self._cut(hanzi)
        words: list[str] = []
        start = 0
        while start < len(hanzi):
            for word in self._cut(hanzi[start:]):
                phrases = (hanzi[start : start + length] for length in self._user_lengths)
                phrase = next((phrase for phrase in phrases if phrase in self._user_phrases), "")
                words.append(phrase if len(phrase) >= len(word) else word)
                start += len(words[-1])
                if len(phrase) > len(word):
                    break  # pypinyin's next word would start inside the phrase
        return words

    def _cut(self, hanzi: str) -> list[str]:
        """Splits hanzi from left to right into the longest words in pypinyin's dictionary.

        With tone sandhi, no word contains parts of two jieba words: 人参 is not a word in 人参加.
        """
        parts = _join_phrases(tone_sandhi.segment(hanzi)) if self._has_sandhi else [hanzi]
        return [word for part in parts for word in mmseg.seg.cut(part)]


def _join_phrases(words: Sequence[str]) -> list[str]:
    """Joins neighbouring words that form a phrase in pypinyin's dictionary."""
    joined: list[str] = []
    for word in words:
        joined.append(word)
        for start in (-3, -2):
            phrase = "".join(joined[start:])
            if phrase in constants.PHRASES_DICT and _LOOSE.isdisjoint(joined[start:]):
                joined[start:] = [phrase]
    return joined


def load_phrases(path: str) -> dict[str, tuple[str, ...]]:
    """Returns the syllables of each phrase in a user's dictionary (lines such as 重庆<TAB>chong2 qing4).

    Raises errors.UserError if the file cannot be read, or a line is malformed or repeats a phrase.
    """
    phrases: dict[str, tuple[str, ...]] = {}
    remedy = f"pass a text file with lines of the form {_FORM}"
    for number, line in enumerate(text_files.read_lines(path, remedy), 1):
        if not line.strip():
            continue
        phrase, tab, pinyin = line.partition("\t")
        phrase = unicodedata.normalize("NFKC", phrase.strip())  # transcripts are in NFKC too
        problem = _find_problem(phrase, tab, pinyin.split())
        if phrase in phrases and not problem:
            problem = f"{phrase} is a duplicate"
        if problem:
            raise errors.UserError(
                f"--user_dictionary: {path}: line {number}: {problem}. Fix the line; the expected "
                f"form is {_FORM}."
            )
        phrases[phrase] = tuple(tokenisation.normalise_pinyin(pinyin, phrase))
    return phrases


def _find_problem(phrase: str, tab: str, tokens: list[str]) -> str:
    if not tab:
        return "the tab is missing"
    if not normalisation.is_hanzi(phrase):
        return f"the phrase {phrase!r} does not consist of hanzi"
    if len(tokens) != len(phrase):
        return f"{phrase} has {len(phrase)} hanzi but {len(tokens)} syllables"
    for token in tokens:
        normalised = tokenisation.normalise_pinyin(token)  # two tokens if NFKC adds a space (as for ´)
        is_syllable = len(normalised) == 1 and syllables.split_syllable(normalised[0])
        if not is_syllable or token[-1] not in syllables.TONES:
            return f"{token!r} is not a toned syllable"
    return ""


def dictionary_readings(character: str) -> list[str]:
    """Returns the toned syllables that pypinyin's dictionary lists for a hanzi; [] for other characters."""
    readings = _pypinyin(pypinyin.pinyin, character, heteronym=True)
    return [reading for reading in readings[0] if _TONED.fullmatch(reading)] if readings else []


@functools.lru_cache(maxsize=1 << 16)
def _read(word: str) -> tuple[str, ...]:
    readings = _pypinyin(pypinyin.lazy_pinyin, word)
    return tuple(reading if _TONED.fullmatch(reading) else hanzi for hanzi, reading in zip(word, readings))


def _pypinyin(function, hanzi, **options):
    """Calls a pypinyin function with options for the spelling that syllables.py defines."""
    return function(
        hanzi, style=pypinyin.Style.TONE3, neutral_tone_with_five=True, v_to_u=False, errors=list, **options
    )
