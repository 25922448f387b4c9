"""Normalises transcripts: every transcript goes through STEPS, in order.

    normalise("\ufeffＯ Ｐ  Ａ（淮海 店）\r\n")  ->  "o p a淮海店"

To add a rule, write a function from text to text and enter it in STEPS. With --numbers=read, numbers have
become hanzi before (numerals.py). docs/build.md tells what becomes of symbols.
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
# The radicals from U+2E81 and strokes from U+31CF: Unicode's EquivalentUnifiedIdeograph, where NFKC lacks it.
_RADICALS = (
    "厂乛乚乙亻冂𠘨刀刂卜㔾小小兀尣尢𡯂巳幺彑彐忄心扌攵\u2e9a旡日月歺母民氵氺灬爫爫丬牛犭王𤴔目示礻𥫗糹纟"
    "罓罒㓁冗𦉫羊𦍌𦍋耂肀聿肉𦥑艹艹艹虎衤覀西见角𧢲讠贝𧾷车辶辶辶邑钅長镸长门𨸏阝雨青韦页风飞食𩙿飠饣"
    "𩠐马骨鬼鱼鸟卤麦黄黾斉齐歯齿竜龙龜亀龟"
)
_SAME = str.maketrans("≦≧∶〜∼−‐’", "≤≥:~~--'") | dict(enumerate(_RADICALS, 0x2E81))
_SAME |= dict(enumerate("乀一丨丿丿丶𠃍乛𠃊𠃎𠄌亅𡿨𠃋乀𠃑乚乙𠄎", 0x31CF))
_ENCLOSED = "[Ⅰ-ↂ①-⒛⓪-⓿❶-➓〡-〩㈠-㈩㉑-㉟㊀-㊉㊱-㊿]"  # numbers in one character
_WORDS = "加 等于 乘 除以 小于 大于 约等于 不等于 小于等于 大于等于 正负 根号 无穷大 度 加加 摄氏度 华氏度"
_SAID = dict(zip((*"+=×÷<>≈≠≤≥±√∞°", "++", "°c", "°f"), _WORDS.split()))
# <b> is a tag, 张×同学 a name with a gap, and the + of +1 is silent.
_SYMBOL = re.compile(
    rf"<[^<>]*>|(?<=[{_HANZI}])×(?=[{_HANZI}])|(?<=[\w)]) ?([+=×÷<>≈≠≤≥]) ?(?=[\w(√±∞])|(?<=\w)(\+\+?)(?!\+)"
    r"|([±√≈≤≥]|[<>](?= ?[0-9]))(?= ?[\w(])|(∞|(?<=\w)°(?![CcFf])|°[CcFf](?![A-Za-z]))"
)
_GAPS = "⺀□〓\ufffc\ufffd⿰⿱⿲⿳⿴⿵⿶⿷⿸⿹⿺⿻\u2ffc\u2ffd\u2ffe\u2fff"  # placeholders
# Keys are the categories of `_categorise`: unknowable characters, and characters that are left out.
_UNREADABLE = dict(Co="private use", Cc="control character", Cs="half of a character", Cn="unassigned")
_LEFT_OUT = {
    "Cf": "zero-width characters",
    "Me": "enclosing marks and variation selectors",
    "So": "emoji and other pictures",
    **dict.fromkeys(("Sc", "Sk", "Sm"), "symbols"),
}


def normalise(transcript: str) -> str:
    """Returns the normalised transcript; a second normalisation changes nothing."""
    return functools.reduce(lambda text, step: step(text), STEPS, transcript)


def split_phrases(transcript: str) -> list[str]:
    """Returns the normalised phrases of a transcript, which end at punctuation."""
    folded = _join_elisions(say_symbols(_fold(transcript)))
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


def compose(text: str) -> str:
    """Returns NFKC, with hanzi for radicals: full-width letters become ASCII, ①② 1、2, and m² 平方米."""
    metres = re.sub("(?<![A-Za-z])m³|㎥", "立方米", re.sub("(?<![A-Za-z])m²|㎡", "平方米", text))
    separated = re.sub(f"(?<={_ENCLOSED})(?=[0-9]|{_ENCLOSED})|(?<=[0-9])(?={_ENCLOSED})", "、", metres)
    digits = re.sub(_ENCLOSED, lambda match: str(int(unicodedata.numeric(match[0]))), separated)
    return unicodedata.normalize("NFKC", digits).translate(_SAME)


def say_symbols(text: str) -> str:
    """Returns a composed text with words for symbols that are read aloud: a+b=c becomes a加b等于c."""
    return _SYMBOL.sub(lambda each: _SAID[each[each.lastindex].lower()] if each.lastindex else each[0], text)


def find_unreadable(transcript: str) -> str:
    """Returns the first character that nobody can know, with its name or kind; empty if there is none."""
    return next((f"U+{ord(each):04X} ({_why(each)})" for each in transcript if _why(each)), "")


def count_left_out(transcript: str) -> collections.Counter[str]:
    """Returns how many characters of each kind, besides punctuation, normalisation leaves out."""
    categories = map(_categorise, say_symbols(_fold(transcript)))
    return collections.Counter(_LEFT_OUT[each] for each in categories if each in _LEFT_OUT)


def _fold(text: str) -> str:
    """Composed in lower case; some letters compose only in lower case."""
    return unicodedata.normalize("NFKC", compose(text).lower())


def _join_elisions(text: str) -> str:
    """An apostrophe does not separate words: it's becomes its."""
    return _APOSTROPHES.sub("", text)


def _drop_punctuation(text: str) -> str:
    return "".join(map(_keep_or_space, text))


@functools.cache
def _keep_or_space(character: str) -> str:
    category = _categorise(character)
    return "" if category in ("Cf", "Me") else " " if category[0] in "PSZC" else character


@functools.cache
def _categorise(character: str) -> str:
    """Returns Unicode's category; variation selectors are marks, @ and the like symbols, new emoji known."""
    if character in "@#&%‰*/":
        return "Sm"
    if "\U0001f000" <= character <= "\U0001faff":
        return "So"
    is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
    return "Me" if is_selector else unicodedata.category(character)


@functools.cache
def _why(character: str) -> str:
    if character in _GAPS:
        return unicodedata.name(character, "unassigned").lower()
    return "" if character.isspace() else _UNREADABLE.get(_categorise(character), "")


def _drop_spaces(text: str) -> str:
    """A single space remains between two words, none next to a hanzi."""
    return _SPACE_NEXT_TO_HANZI.sub("", " ".join(text.split()))


STEPS = (_fold, say_symbols, _join_elisions, _drop_punctuation, _drop_spaces)
