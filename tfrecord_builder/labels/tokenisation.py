"""Transcripts to tokens: pure functions of strings.

In: a transcript as a corpus has it. Out: a canonical transcript, its characters, its toned pinyin syllables.

    normalise("\ufeffＯ Ｐ  Ａ（淮海 店）\r\n")  ->  "o p a淮海店"
    to_characters("o p a淮")               ->  o <space> p <space> a 淮
    to_syllables("o p a淮海店")             ->  o p a huai2 hai3 dian4
    normalise_pinyin("LÜ4 nu:3 de")        ->  lv4 nv3 de5

The rule: a blank survives only between two characters that are not hanzi; a hanzi is read by a dictionary
(see pinyin), every other character (Latin letter, digit) is its own token. If nothing else is said, the only
tone sandhi is that of 一 and 不 in the phrases which pypinyin spells with it: 一个 is yi2 ge4, but 一天 yi1
tian1, 你好 ni3 hao3.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Optional, Protocol

from tfrecord_builder import syllables, vocabulary

# 〇, the unified ideographs with extension A, the compatibility ideographs, and extensions B and later.
_HANZI = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANZI_RUN = re.compile(f"([{_HANZI}]+)")
_BLANK_BESIDE_HANZI = re.compile(f"(?<=[{_HANZI}]) | (?=[{_HANZI}])")
_APOSTROPHES = re.compile("['\u2019\u02bc]")
_TONED_FORM = re.compile("[a-zü:]+[0-9]")


class Reader(Protocol):
    """Reads hanzi, as pinyin.Reader does."""

    def read(self, hanzi: str) -> list[str]: ...


def is_hanzi(character: str) -> bool:
    """True for one Chinese character."""
    return _HANZI_RUN.fullmatch(character) is not None


def normalise(transcript: str) -> str:
    """Gives the canonical transcript.

    NFKC (full-width to ASCII), lower case, no punctuation or symbols (they part words; an apostrophe does
    not), no control or zero-width characters (BOM, carriage return), single blanks, and none beside a hanzi.
    """
    folded = _fold(transcript)
    words = "".join(_keep_or_blank(character) for character in folded).split()
    return _BLANK_BESIDE_HANZI.sub("", " ".join(words))


def to_characters(transcript: str) -> list[str]:
    """Gives the characters of a normalised transcript; a blank is the token <space>."""
    return [vocabulary.SPACE if character == " " else character for character in transcript]


def to_phrases(transcript: str) -> list[str]:
    """Parts a transcript as a corpus has it where there is punctuation, and normalises the parts."""
    folded = _fold(transcript)
    parted = "".join("\n" if unicodedata.category(c)[0] == "P" else c for c in folded)
    return [phrase for phrase in map(normalise, parted.split("\n")) if phrase]


def to_syllables(transcript: str, reader: Optional[Reader] = None) -> list[str]:
    """Returns the toned syllables of a normalised transcript; what is no hanzi is a token of one character.

    Args:
      transcript: as normalise gives it.
      reader: a pinyin.Reader; one without a user's dictionary if not given.
    """
    reader = reader or _default_reader()
    tokens: list[str] = []
    for run in _HANZI_RUN.split(transcript):
        tokens.extend(reader.read(run) if is_hanzi(run[:1]) else run.replace(" ", ""))
    return tokens


def normalise_pinyin(pinyin: str, transcript: str = "") -> list[str]:
    """Returns the tokens of a pronunciation: lower case, v for u-umlaut, neutral tone 5.

    A syllable without a tone, or with tone 0, is neutral where a hanzi stands at its place in the transcript;
    elsewhere only if it is in lower case and is not a single letter (o k). Only there tone marks (nǐ) become
    digits. A token at the place of the same Latin letter or digit is that character. All other tokens that
    are not toned Mandarin syllables (phones of another language: HH, NG, ER0) stay as they are written; if
    the transcript has hanzi, those without letters and digits are dropped.

    Args:
      pinyin: tokens separated by spaces; invisible characters are dropped.
      transcript: normalised; if it has not as many characters as there are tokens, each token that it does
        not contain stands at the place of a hanzi, if it has any.
    """
    visible = "".join(c for c in unicodedata.normalize("NFKC", pinyin) if unicodedata.category(c) != "Cf")
    tokens, characters = visible.split(), transcript.replace(" ", "")
    first = _HANZI_RUN.search(characters)
    if first:
        tokens = [token for token in tokens if token.isalnum() or any(map(str.isalnum, token))]
    if len(characters) != len(tokens):
        hanzi = first[0][0] if first else ""
        return [_normalise_token(token, "" if token.lower() in transcript else hanzi) for token in tokens]
    return [_normalise_token(token, character) for token, character in zip(tokens, characters)]


def unknown_syllables(pinyin: str, transcript: str) -> list[str]:
    """Returns the tokens of a pronunciation that should be toned syllables and are not: hao9, xyz3.

    If the transcript has hanzi, these are all that it does not contain (A楼 has A). Phones of another
    language come without hanzi; without a transcript they are not written as lower-case letters and a digit.

    Args:
      pinyin, transcript: as for normalise_pinyin.
    """
    others = [token for token in normalise_pinyin(pinyin, transcript) if not _is_syllable(token)]
    if _HANZI_RUN.search(transcript):
        return [token for token in others if token.lower() not in transcript]
    toned = [token for token in others if _TONED_FORM.fullmatch(token)]
    return [token for token in toned if not transcript or token in transcript]


def one_to_one(transcript: str, tokens: list[str]) -> list[str]:
    """Gives the characters that stand one to one against the tokens, or [] where they do not.

    One to one: without blanks there are as many characters as tokens, and what is not a hanzi is its own
    token. Er-hua written as one syllable, or a transcript that is itself pinyin, gives [].
    """
    characters = list(transcript.replace(" ", ""))
    if len(characters) != len(tokens):
        return []
    pairs = zip(characters, tokens)
    return characters if all(is_hanzi(character) or character == token for character, token in pairs) else []


def _fold(transcript: str) -> str:
    """Gives NFKC in lower case without apostrophes; letters that compose only in lower case are composed."""
    lower = unicodedata.normalize("NFKC", transcript).lower()
    return _APOSTROPHES.sub("", unicodedata.normalize("NFKC", lower))


@functools.cache
def _keep_or_blank(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf":  # BOM, zero-width joiners
        return ""
    return " " if category[0] in "PSZC" else character


@functools.cache
def _is_syllable(token: str) -> bool:
    return syllables.exists(token)


@functools.cache
def _normalise_token(token: str, character: str) -> str:
    """Normalises the token beside a character, or "" where that is not known."""
    if character and not is_hanzi(character) and token.lower() == character:
        return character
    spelled = token.lower().replace("u:", "v")
    if is_hanzi(character) and not spelled.isascii():
        spelled = _tone_marks_to_digits(spelled)
    spelled = spelled.replace("ü", "v")
    spelled = re.sub("^([ln])ue", r"\1ve", spelled)  # lue is written for lüe; no other syllable is spelled so
    spelled = re.sub("^([jqxy])v", r"\1u", spelled)  # after j q x y the dots are left out
    if spelled[-1:] not in syllables.TONES:
        is_pinyin = is_hanzi(character) or (token == token.lower() and len(token) > 1)
        spelled = spelled.removesuffix("0") + "5" if is_pinyin else ""
    return spelled if syllables.split_syllable(spelled) else token


def _tone_marks_to_digits(spelled: str) -> str:
    from pypinyin.contrib import tone_convert  # its tables take time; most corpora write digits

    return tone_convert.to_tone3(spelled, v_to_u=False)


@functools.cache
def _default_reader() -> Reader:
    from tfrecord_builder.labels import (
        pinyin as pinyin_lib,  # pypinyin's tables take time, which not every program needs
    )

    return pinyin_lib.Reader()
