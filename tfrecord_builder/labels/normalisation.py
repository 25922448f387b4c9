"""Normalises transcripts by applying the functions in STEPS, in order.

    normalise("\ufeffＯ Ｐ  Ａ（淮海 店）\r\n")  ->  "o p a淮海店"

To add a rule, write a function that takes and returns text, and add it to STEPS. With --numbers=read,
numerals.py has already converted numbers to hanzi. docs/build.md explains what happens to symbols.
"""

from __future__ import annotations

import collections
import functools
import re
import unicodedata
from collections.abc import Iterable

# 〇, the unified ideographs with extension A, the compatibility ideographs, and extensions B and later.
_HANZI = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HANZI_RUN = re.compile(f"([{_HANZI}]+)")
_SPACE_NEXT_TO_HANZI = re.compile(f"(?<=[{_HANZI}]) | (?=[{_HANZI}])")
_APOSTROPHES = re.compile("['\u2019\u02bc]")
# Hanzi that replace characters that NFKC leaves unchanged: here for radicals from U+2E81 onwards, in _SAME
# also for strokes from U+31CF onwards. They are taken from Unicode's EquivalentUnifiedIdeograph.
_RADICALS = (
    "厂乛乚乙亻冂𠘨刀刂卜㔾小小兀尣尢𡯂巳幺彑彐忄心扌攵\u2e9a旡日月歺母民氵氺灬爫爫丬牛犭王𤴔目示礻𥫗糹纟"
    "罓罒㓁冗𦉫羊𦍌𦍋耂肀聿肉𦥑艹艹艹虎衤覀西见角𧢲讠贝𧾷车辶辶辶邑钅長镸长门𨸏阝雨青韦页风飞食𩙿飠饣"
    "𩠐马骨鬼鱼鸟卤麦黄黾斉齐歯齿竜龙龜亀龟"
)
_SAME = str.maketrans("≦≧∶〜∼−‐’", "≤≥:~~--'") | dict(enumerate(_RADICALS, 0x2E81))
_SAME |= dict(enumerate("乀一丨丿丿丶𠃍乛𠃊𠃎𠄌亅𡿨𠃋乀𠃑乚乙𠄎", 0x31CF))
_ENCLOSED = "[Ⅰ-ↂ①-⒛⓪-⓿❶-➓〡-〩㈠-㈩㉑-㉟㊀-㊉㊱-㊿]"  # single characters that stand for numbers
_WORDS = "加 等于 乘 除以 小于 大于 约等于 不等于 小于等于 大于等于 正负 根号 无穷大 度 加加 摄氏度 华氏度"
_SYMBOL_WORDS = dict(zip((*"+=×÷<>≈≠≤≥±√∞°", "++", "°c", "°f"), _WORDS.split()))
# Symbols to replace with words. A match without a group is left unchanged: a tag (<b>), or × as a gap in a
# name (张×同学). The + in +1 is silent and does not match.
_SYMBOL = re.compile(
    rf"<[^<>]*>|(?<=[{_HANZI}])×(?=[{_HANZI}])|(?<=[\w)]) ?([+=×÷<>≈≠≤≥]) ?(?=[\w(√±∞])|(?<=\w)(\+\+?)(?!\+)"
    r"|([±√≈≤≥]|[<>](?= ?[0-9]))(?= ?[\w(])|(∞|(?<=\w)°(?![CcFf])|°[CcFf](?![A-Za-z]))"
)
_GAPS = "⺀□〓\ufffc\ufffd⿰⿱⿲⿳⿴⿵⿶⿷⿸⿹⿺⿻\u2ffc\u2ffd\u2ffe\u2fff"  # marks for missing characters
# Character categories (see `_categorise`) and their names. A character in _UNREADABLE makes a transcript
# unreadable; a character in _LEFT_OUT is left out of the transcript.
_UNREADABLE = dict(Co="private use", Cc="control character", Cs="unpaired surrogate", Cn="unassigned")
_LEFT_OUT = {
    "Cf": "zero-width characters",
    "Me": "enclosing marks and variation selectors",
    "So": "emoji and other pictures",
    **dict.fromkeys(("Sc", "Sk", "Sm"), "symbols"),
}


def normalise(transcript: str) -> str:
    """Returns the normalised transcript; normalising it again changes nothing."""
    return functools.reduce(lambda text, step: step(text), STEPS, transcript)


def split_phrases(transcript: str) -> list[str]:
    """Splits a transcript at punctuation and returns the normalised phrases."""
    folded = _join_elisions(say_symbols(_fold(transcript)))
    text = "".join("\n" if unicodedata.category(c)[0] == "P" else c for c in folded)
    return [phrase for phrase in map(normalise, text.split("\n")) if phrase]


def find_traditional(characters: Iterable[str]) -> dict[str, str]:
    """Maps traditional characters to their simplified forms if `characters` contains both forms."""
    import wetext  # slow to import

    hanzi = "".join(sorted(filter(is_hanzi, characters)))
    simplified = wetext.Normalizer(lang="zh", operator="tn", traditional_to_simple=True).normalize(hanzi)
    return {old: new for old, new in zip(hanzi, simplified) if old != new and new in hanzi}


def is_hanzi(text: str) -> bool:
    """Returns True if the text consists of one or more Chinese characters."""
    return HANZI_RUN.fullmatch(text) is not None


def compose(text: str) -> str:
    """Converts the text to NFKC, and radicals to hanzi: Ａ becomes A, ①② becomes 1、2, m² becomes 平方米."""
    metres = re.sub("(?<![A-Za-z])m³|㎥", "立方米", re.sub("(?<![A-Za-z])m²|㎡", "平方米", text))
    separated = re.sub(f"(?<={_ENCLOSED})(?=[0-9]|{_ENCLOSED})|(?<=[0-9])(?={_ENCLOSED})", "、", metres)
    digits = re.sub(_ENCLOSED, lambda match: str(int(unicodedata.numeric(match[0]))), separated)
    return unicodedata.normalize("NFKC", digits).translate(_SAME)


def say_symbols(text: str) -> str:
    """Replaces symbols that are read aloud with words, in text from `compose`: a+b=c becomes a加b等于c."""
    return _SYMBOL.sub(lambda m: _SYMBOL_WORDS[m[m.lastindex].lower()] if m.lastindex else m[0], text)


def find_unreadable(transcript: str) -> str:
    """Returns the first unreadable character's code point and kind, such as U+E863 (private use), or ""."""
    return next((f"U+{ord(c):04X} ({_name_unreadable(c)})" for c in transcript if _name_unreadable(c)), "")


def count_left_out(transcript: str) -> collections.Counter[str]:
    """Counts, by kind, the characters that normalisation leaves out, apart from punctuation."""
    categories = map(_categorise, say_symbols(_fold(transcript)))
    return collections.Counter(_LEFT_OUT[category] for category in categories if category in _LEFT_OUT)


def _fold(text: str) -> str:
    """Returns compose(text) in lower case, and in NFKC again: some letters combine only in lower case."""
    return unicodedata.normalize("NFKC", compose(text).lower())


def _join_elisions(text: str) -> str:
    """Removes apostrophes, which do not separate words: it's becomes its."""
    return _APOSTROPHES.sub("", text)


def _drop_punctuation(text: str) -> str:
    return "".join(map(_keep_or_space, text))


@functools.cache
def _keep_or_space(character: str) -> str:
    category = _categorise(character)
    return "" if category in ("Cf", "Me") else " " if category[0] in "PSZC" else character


@functools.cache
def _categorise(character: str) -> str:
    """Returns the Unicode category, but Me for variation selectors, Sm for signs like @, and So for emoji."""
    if character in "@#&%‰*/":
        return "Sm"
    if "\U0001f000" <= character <= "\U0001faff":
        return "So"
    is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
    return "Me" if is_selector else unicodedata.category(character)


@functools.cache
def _name_unreadable(character: str) -> str:
    if character in _GAPS:
        return unicodedata.name(character, "unassigned").lower()
    return "" if character.isspace() else _UNREADABLE.get(_categorise(character), "")


def _drop_spaces(text: str) -> str:
    """Keeps one space between words, but no space next to a hanzi."""
    return _SPACE_NEXT_TO_HANZI.sub("", " ".join(text.split()))


STEPS = (_fold, say_symbols, _join_elisions, _drop_punctuation, _drop_spaces)
