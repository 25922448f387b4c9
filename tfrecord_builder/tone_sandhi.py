"""Tones as they change in speech: third tones, 一 and 不. For pinyin that is made here, never a corpus's own.

The rules (Standard Chinese phonology), for the syllables between two pauses:

    third tone  Words of one syllable stand together two and two, others by themselves. In such a foot a
                third tone before a third tone is a second; then so is one at a foot's end before a foot that
                still begins with a third: 你好 ni2 hao3, 老展览 lao3 zhan2 lan3, 你很好 ni2 hen2 hao3.
    不          second before a fourth (不对 bu2 dui4), neutral between two equal characters (好不好), else
                fourth.
    一          second before a fourth (一个 yi2 ge4), fourth before another (一天 yi4 tian1), neutral between
                two equal characters (看一看). First where it counts or orders: at the end, behind 第 or a
                numeral, before a digit, 月, 号 or 楼, and in 统一, 唯一, 周一 and the like.

Whether a longer row of third tones changes as a whole is up to the speaker; this is one of the ways.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

_DIGITS = frozenset("〇零一二三四五六七八九")
_BEFORE_FIRST_TONE = _DIGITS | frozenset("十百千万亿两点第初周期拜之统唯惟单专归")
_BEHIND_FIRST_TONE = _DIGITS | frozenset("十月号楼")


def change_tones(words: Sequence[str], syllables: Sequence[str], is_fixed: Sequence[bool]) -> list[str]:
    """Gives the syllables with their tones changed.

    Args:
      words: the hanzi between two pauses, in words.
      syllables: toned, one a hanzi; what is none (a hanzi without a reading) stays.
      is_fixed: for each hanzi, whether its syllable stays.
    """
    hanzi, changed = "".join(words), list(syllables)
    for place, character in enumerate(hanzi):
        if character in "一不" and not is_fixed[place] and changed[place][:-1] in ("yi", "bu"):
            changed[place] = changed[place][:-1] + _TONES[character](hanzi, changed, place)
    _change_third_tones(_group_feet(words), changed, is_fixed)
    return changed


def _tone_of_bu(hanzi: str, syllables: Sequence[str], place: int) -> str:
    if _is_between_equals(hanzi, place):
        return "5"
    return "2" if _next_tone(syllables, place) == "4" else "4"


def _tone_of_yi(hanzi: str, syllables: Sequence[str], place: int) -> str:
    before, behind = hanzi[place - 1 : place], hanzi[place + 1 : place + 2]
    is_decimal = behind == "点" and hanzi[place + 2 : place + 3] in _DIGITS
    if not behind or before in _BEFORE_FIRST_TONE or behind in _BEHIND_FIRST_TONE or is_decimal:
        return "1"
    if _is_between_equals(hanzi, place) and hanzi[place - 2 : place - 1] != "一":  # not 一天一天
        return "5"
    return "2" if _next_tone(syllables, place) == "4" else "4"


_TONES = {"一": _tone_of_yi, "不": _tone_of_bu}


def _is_between_equals(hanzi: str, place: int) -> bool:
    return 0 < place < len(hanzi) - 1 and hanzi[place - 1] == hanzi[place + 1] != hanzi[place]


def _next_tone(syllables: Sequence[str], place: int) -> str:
    return syllables[place + 1][-1] if place + 1 < len(syllables) else ""


def _group_feet(words: Sequence[str]) -> list[str]:
    feet: list[str] = []
    for word in words:
        if len(word) == 1 and feet and len(feet[-1]) == 1:
            feet[-1] += word
        else:
            feet.append(word)
    return feet


def _change_third_tones(feet: Sequence[str], syllables: list[str], is_fixed: Sequence[bool]) -> None:
    ends = [end - 1 for end in itertools.accumulate(map(len, feet))]
    inside = sorted(set(range(len(syllables))) - set(ends))
    for place in [*inside, *ends[:-1]]:
        is_pair = syllables[place].endswith("3") and syllables[place + 1].endswith("3")
        if is_pair and not is_fixed[place]:
            syllables[place] = syllables[place][:-1] + "2"
