"""Mandarin tone sandhi: changes dictionary tones into spoken tones.

Tone sandhi is never applied to pinyin from a corpus. The rules apply to the words between two pauses:

    third tone  A third tone before another third tone becomes a second tone, first inside words, then between
                them. Words of three or more hanzi are split into shorter words (小老虎 into 小 and 老虎),
                inside which tones change first. Words of one hanzi form pairs; a leftover word joins the next
                word. Sources: Duanmu 2007, The Phonology of Standard Chinese; Chen 2000, Tone Sandhi (minimal
                rhythmic unit).
                你好 ni2 hao3, 老展览 lao3 zhan2 lan3, 展览馆 zhan2 lan2 guan3, 你很好 ni2 hen2 hao3.
    不          Second tone before a fourth tone (不对 bu2 dui4, 是不是), neutral if the dictionary says so,
                otherwise fourth. In Chao 1968, A Grammar of Spoken Chinese, 不 is neutral in 是不是 too.
    一          Second tone before a fourth tone (一个 yi2 ge4), fourth before other tones (一天 yi4 tian1),
                neutral between equal hanzi (看一看). First tone as a cardinal or ordinal number: at the end,
                after 第 or a numeral (but 一千一百 yi4 bai3), before a digit, 月, 号, 楼, 线, 级 or 审, in
                dates (一月一日), at the start before 是 or 加, and in 统一, 唯一, 周一, 合一 and the like.
    kinship     The second syllable of a doubled term is neutral: 姐姐 jie3 jie5, 妈妈 ma1 ma5 (Chao 1968).

Speakers differ on longer sequences of third tones; these rules produce one of the variants.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

_DIGITS = frozenset("〇零一二三四五六七八九")
_BEFORE_FIRST_TONE = _DIGITS | frozenset("十百千万亿两点第初周期拜之统唯惟单专归逐缺合")
_AFTER_FIRST_TONE = _DIGITS | frozenset("十月号楼级审线档氧")
_KINSHIP = frozenset("爸妈哥姐弟妹爷奶叔伯舅姑婶嫂姥公婆太宝")


def segment(hanzi: str) -> list[str]:
    """Segments a text without punctuation into words with rjieba, a Rust port of jieba."""
    import rjieba  # slow to import

    return rjieba.cut(hanzi, False)  # False disables guessed words, which would join 地 and a verb


def change_tones(words: Sequence[str], syllables: Sequence[str], is_fixed: Sequence[bool]) -> list[str]:
    """Returns the syllables after tone sandhi; a hanzi without a reading takes the place of its syllable.

    For the arguments, see context_readings.correct.
    """
    hanzi, changed = "".join(words), list(syllables)
    for place, character in enumerate(hanzi):
        if changed[place] in _CHANGING.get(character, ()) and not is_fixed[place]:
            changed[place] = changed[place][:-1] + _TONES[character](hanzi, changed, place)
    end = 0
    for word in words:
        start, end = end, end + len(word)
        for place in range(start + 1, end):
            is_doubled = hanzi[place] == hanzi[place - 1] and hanzi[place] in _KINSHIP
            if is_doubled and not is_fixed[place]:
                changed[place] = changed[place][:-1] + "5"
    tones = "".join(syllable[-1] for syllable in changed)
    for place in _order(_group_feet(words), tones) if "33" in tones else ():
        if changed[place][-1] == changed[place + 1][-1] == "3" and not is_fixed[place]:
            changed[place] = changed[place][:-1] + "2"
    return changed


def _tone_of_bu(hanzi: str, syllables: Sequence[str], place: int) -> str:
    return "2" if "".join(syllables[place + 1 : place + 2]).endswith("4") else "4"


def _tone_of_yi(hanzi: str, syllables: Sequence[str], place: int) -> str:
    before, after = hanzi[place - 1 : place], hanzi[place + 1 : place + 2]
    is_decimal = after == "点" and hanzi[place + 2 : place + 3] in _DIGITS
    is_hundred = after in ("百", "千") and before != "第"
    is_named = before in _BEFORE_FIRST_TONE or after in _AFTER_FIRST_TONE or is_decimal
    is_named |= before + after in ("月日", "是", "加") or hanzi[place + 1 : place + 3] == "数二"
    if not after or (is_named and not is_hundred):
        return "1"
    if before == after != "一" and hanzi[place - 2 : place - 1] != "一":  # 看一看, but not 一天一天
        return "5"
    return _tone_of_bu(hanzi, syllables, place)


_TONES = {"一": _tone_of_yi, "不": _tone_of_bu}
_CHANGING = {"一": ("yi1", "yi2", "yi4", "yi5"), "不": ("bu2", "bu4")}  # the dictionary's bu5 is kept


def _group_feet(words: Sequence[str]) -> list[str]:
    feet: list[str] = []
    for word in words:
        if len(word) == 1 and feet and len(feet[-1]) == 1:
            feet[-1] += word
        else:
            feet.append(word)
    return feet


def _order(parts: Sequence[str], tones: str) -> list[int]:
    """Returns the positions of third tones that may change, in the order in which they change.

    `parts` are words, or the parts of a word; `tones` has one digit per hanzi.
    """
    starts = [0, *itertools.accumulate(map(len, parts))]
    spans = [(start, start + len(part), part) for start, part in zip(starts, parts)]
    inside = [start + place for start, end, part in spans for place in _order_inside(part, tones[start:end])]
    linked = [span for span in spans[:-1] if len(span[2]) < 3]  # speakers pause after longer words
    alone_first = sorted(linked, key=lambda span: len(span[2]) > 1)
    return [*inside, *(end - 1 for _, end, _ in alone_first)]


def _order_inside(word: str, tones: str) -> list[int]:
    if len(word) == 1:
        return []
    parts = _split_word(word) if "333" in tones else ()  # the order matters only if three third tones meet
    return _order(parts if len(parts) > 1 else word, tones)


@functools.lru_cache(maxsize=1 << 16)
def _split_word(word: str) -> tuple[str, ...]:
    """Splits a word into the shorter words in it and the remaining hanzi, if it contains shorter words."""
    import rjieba  # slow to import

    spans = [(start, end) for _, start, end in rjieba.tokenize(word, "search") if end - start < len(word)]
    chosen: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], -span[0])):  # longest first
        if all(end <= first or last <= start for first, last in chosen):
            chosen.append((start, end))
    ends = sorted({0, len(word)}.union(*chosen))
    return tuple(word[start:end] for start, end in zip(ends, ends[1:]))
