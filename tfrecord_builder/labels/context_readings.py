"""Corrects the dictionary's readings of hanzi whose pronunciation depends on the surrounding words.

    得    de5 after a verb or an adjective (跑得很快); dei3, "must", after an adverb or a pronoun (你得走了)
    地    de5 between an adverb of several hanzi and the word that it modifies (慢慢地走); not in nouns (盆地)
    为    wei2 after a verb that it completes, or before a number (称为, 意为, 比例为五点二)
    长    zhang3 in titles of people (as in the dictionary), chang2 next to a measure or after 很 and the like
    只    zhi1 after a numeral, 这, 那, 哪, 几 or 犬 (两只手)
    倒    dao3 after a verb (推倒)
    子    zi3 in words where it is not a suffix (男子, 电子)
    个    ge5 after 是, 有 and 了
    教 还 种: as verbs jiao1, huan2 and zhong4 (教我, 还钱, 种了)
    words whose last syllable is neutral in the list of the national Putonghua proficiency test
    (普通话水平测试用必读轻声词语表), except words that are usually spoken with a full tone (时候, 故事)
    reduplicated verbs: 数一数 shu3, 量了量 liang2, 教教 jiao1 jiao5

Most rules were developed on half of CSMSC's sentences; docs/results.md reports results for the other half.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Hanzi that determine how the following or a neighbouring hanzi is read; see _RULES.
_NUMERALS = "一二两三四五六七八九十百千万亿几零〇半多"
_BEFORE_DEI = "就还也只可都总非必吧我你您他她它们俺咱"
_BEFORE_WEI = (
    "尤现大称意图皆均实身列设命拔选评改名译升降增视判定认化变分作成终其约即沦结誉喻封聘数者比度量计伤"
)
_BEFORE_CHANG = "很太最较更不多好挺特极真够体全身边周米年寸尺"
_BEFORE_DAO = "推踢摁按砍昏晕绊撞剐刮压吓击打难跌摔放翻拉"
_VERBS = dict(
    pair.split(":")
    for pair in """
    数:shu3 量:liang2 教:jiao1 转:zhuan4 调:tiao2 弹:tan2 还:huan2 扇:shan1 缝:feng2
    炸:zha2 晃:huang4 卷:juan3 钉:ding4 铺:pu1 盛:cheng2 剥:bao1 削:xiao1 嚼:jiao2
    """.split()
)
_REPEATED = re.compile(rf"(?<![一两几每各这那数重质流宗])([{''.join(_VERBS)}])(?:一|了|了一)\1")
_BESIDE_DI = "在上下里的面为处至归当本就着入出落满遍块亩是"
_BEFORE_ZI = frozenset("男女电分孔才卵精原量质离粒弟学游王君妻亲父太庄孟荀天菌赤公养生求产之一")
_NEUTRAL_WORDS = frozenset(
    """
    爱人 巴掌 包袱 别扭 玻璃 薄荷 簸箕 裁缝 财主 苍蝇 差事 窗户 刺猬 凑合 耷拉 打发 打量 大爷 大夫 耽误 道士
    灯笼 提防 地道 弟兄 东家 东西 动弹 豆腐 嘟囔 耳朵 风筝 福气 高粱 胳膊 工夫 功夫 姑娘 怪物 关系 官司 棺材
    规矩 闺女 蛤蟆 含糊 合同 核桃 狐狸 胡琴 葫芦 糊涂 火候 伙计 机灵 嫁妆 见识 叫唤 结实 街坊 戒指 客气 窟窿
    快活 阔气 喇叭 老婆 篱笆 厉害 利索 痢疾 连累 粮食 溜达 骆驼 麻烦 马虎 忙活 冒失 眉毛 门道 眯缝 迷糊 明白
    蘑菇 模糊 脑袋 念叨 奴才 疟疾 盘算 朋友 屁股 便宜 漂亮 欺负 亲戚 勤快 亲家 认识 扫帚 上司 少爷 牲口 师父
    师傅 石榴 拾掇 使唤 世故 事情 收成 收拾 首饰 舒服 疏忽 思量 算计 太阳 特务 挑剔 跳蚤 唾沫 娃娃 稳当 窝囊
    下巴 吓唬 先生 相声 消息 谢谢 心思 星星 猩猩 休息 秀才 秀气 衙门 胭脂 烟筒 眼睛 秧歌 吆喝 妖精 衣服 衣裳
    意思 应酬 在乎 扎实 眨巴 栅栏 张罗 丈夫 帐篷 招呼 芝麻 知识 转悠 庄稼 壮实 嘴巴 做作 父亲 聪明 喉咙 馄饨
    泥鳅 菩萨 葡萄 蜡烛 算盘 看看 玩玩 尝尝 问问 查查 爹爹 指甲 苦处
    """.split()
)
# Words to which the rules for 得, 地, 为 and 长 do not apply.
_WORDS = frozenset(
    """
    获得 取得 赢得 难得 博得 求得 只得 非得 总得 心得 土地 产地 天地 耕地 目的地 根据地 所在地 发源地 殖民地
    发祥地 出生地 因为 身为 最为 颇为 何为 年长
    """.split()
)


def correct(words: Sequence[str], syllables: Sequence[str], is_fixed: Sequence[bool]) -> list[str]:
    """Returns the syllables, corrected by the rules in this module's docstring.

    Args:
        words: the hanzi between two pauses, segmented into words.
        syllables: toned syllables, one per hanzi.
        is_fixed: for each hanzi, True if its syllable must not change.
    """
    text, corrected, end = "".join(words), list(syllables), 0
    for word in words:
        start, end = end, end + len(word)
        for position, reading in _find_corrections(word, text[:start], text[end:], corrected[end - 1]):
            if not is_fixed[start + position]:
                corrected[start + position] = reading
    for match in _REPEATED.finditer(text):
        for position in (match.start(), match.end() - 1):
            corrected[position] = corrected[position] if is_fixed[position] else _VERBS[match[1]]
    return corrected


def _find_corrections(word, before, after, last):
    """Yields (position in the word, reading) for each hanzi to which a rule gives a different reading."""
    if len(word) == 1:
        yield from _read(0, word, before, after, _RULES_OF_SINGLE_HANZI)
    elif word in ("教教", "量量", "转转"):
        yield from enumerate((_VERBS[word[0]], f"{_VERBS[word[0]][:-1]}5"))
    elif word[-2:] in _NEUTRAL_WORDS:
        yield len(word) - 1, last[:-1] + "5"
    elif "子" in word[1:]:
        positions = (position for position in range(1, len(word)) if word[position] == "子")
        yield from ((position, "zi3") for position in positions if word[position - 1] in _BEFORE_ZI)
    elif word[-1] == "地":  # nouns keep their reading: 盆地, 旅游胜地
        if word == "猛地" or (len(word) == 3 and after and not {word, word[1:]} & _WORDS):
            yield len(word) - 1, "de5"
    elif word[1] in (_RULES if len(word) == 2 else "只得" if len(word) == 3 else "只") and word not in _WORDS:
        yield from _read(1, word[1], before + word[0], word[2:] + after, _RULES)


def _read(position, hanzi, before, after, rules):
    context = f"{before[-2:]}|{after[:2]}"
    readings = (reading for reading, pattern in rules.get(hanzi, ()) if re.search(pattern, context))
    yield from [(position, reading) for reading in readings][:1]


# Readings for each hanzi, and the patterns that select them. A pattern is searched for in "before|after",
# with up to two hanzi on each side of the bar; the first match wins.
_RULES = {
    "得": (
        ("de2", rf"(?:^|[{_BEFORE_DEI}])\|了(?!解)"),
        ("dei3", rf"(?:^|[{_BEFORE_DEI}]|至少)\|"),
        ("de5", r"[^不所未各该应摘]\|."),
    ),
    "地": (("de5", rf".[^三两各军泥多等贴到发殖卵坡{_BESIDE_DI}]\|[^{_BESIDE_DI}]"),),
    "个": (("ge5", r"[是有了]\|"),),
    "为": (("wei2", rf"[{_BEFORE_WEI}]\||.\|[{_NUMERALS}]"),),
    "长": (("chang2", rf"[{_BEFORE_CHANG}]\||\|[约{_NUMERALS}]"),),
    "只": (("zhi1", rf"[{_NUMERALS}这那哪犬]\|"),),
    "倒": (("dao3", rf"[{_BEFORE_DAO}]\|"),),
}
_RULES_OF_SINGLE_HANZI = {
    **_RULES,
    "教": (("jiao1", r"\|."),),
    "还": (("huan2", r"\|[钱债款账清]"),),
    "种": (("zhong4", rf"(?<![{_NUMERALS}这那哪每各某此])\|"),),
    "哦": (("o5", ""),),
    "哟": (("yo5", ""),),
}
