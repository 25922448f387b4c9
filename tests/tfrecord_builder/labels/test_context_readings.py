"""Tests readings of hanzi that depend on the surrounding words, with tone sandhi."""

import re

import pytest
from pypinyin import constants

from tfrecord_builder.labels import context_readings, pinyin

# Phrases and their pinyin, separated by |.
PHRASES = """
他跑得很快 ta1 pao3 de5 hen3 kuai4 | 他得走了 ta1 dei2 zou3 le5 | 我们还得等 wo3 men5 hai2 dei2 deng3
获得成功 huo4 de2 cheng2 gong1 | 不得入内 bu4 de2 ru4 nei4 | 他慢慢地走 ta1 man4 man4 de5 zou3
真诚地邀请 zhen1 cheng2 de5 yao1 qing3 | 坐在地上 zuo4 zai4 di4 shang4 | 目的地很远 mu4 di4 di4 hen2 yuan3
这个地区 zhe4 ge5 di4 qu1 | 简称为七九 jian3 cheng1 wei2 qi1 jiu3 | 为你服务 wei4 ni3 fu2 wu4
时间很长 shi2 jian1 hen3 chang2 | 两只手 liang3 zhi1 shou3 | 只有你 zhi2 you2 ni3
把他推倒 ba3 ta1 tui1 dao3 | 一名男子 yi4 ming2 nan2 zi3 | 电子邮件 dian4 zi3 you2 jian4
一张桌子 yi4 zhang1 zhuo1 zi5 | 好朋友 hao3 peng2 you5 | 买东西 mai3 dong1 xi5
三个人参加 san1 ge4 ren2 can1 jia1 | 游人参观 you2 ren2 can1 guan1 | 吃人参 chi1 ren2 shen1
慢慢地说 man4 man4 de5 shuo1 | 他高兴地笑了 ta1 gao1 xing4 de5 xiao4 le5
准噶尔盆地西北 zhun3 ga2 er3 pen2 di4 xi1 bei3 | 旅游胜地很美 lv3 you2 sheng4 di4 hen2 mei3
这块地很大 zhe4 kuai4 di4 hen3 da4 | 各地的人 ge4 di4 de5 ren2 | 他猛地站起来 ta1 meng3 de5 zhan4 qi3 lai2
他得了第一名 ta1 de2 le5 di4 yi1 ming2 | 我得了解 wo2 dei3 liao2 jie3 | 说得对 shuo1 de5 dui4
我教你 wo3 jiao1 ni3 | 他去还钱 ta1 qu4 huan2 qian2 | 他还没来 ta1 hai2 mei2 lai2
种了三亩地 zhong4 le5 san1 mu3 di4 | 这种花 zhe4 zhong3 hua1 | 一月一日 yi1 yue4 yi1 ri4
数一数 shu3 yi5 shu3 | 他数了数钱 ta1 shu3 le5 shu3 qian2 | 量一量 liang2 yi5 liang2
量了一量 liang2 le5 yi4 liang2 | 教一教我 jiao1 yi5 jiao1 wo3 | 出去转一转 chu1 qu4 zhuan4 yi5 zhuan4
你教教他 ni3 jiao1 jiao5 ta1 | 到处转转 dao4 chu4 zhuan4 zhuan5 | 调一调 tiao2 yi5 tiao2
把鱼炸一炸 ba3 yu2 zha2 yi5 zha2 | 晃了晃头 huang4 le5 huang4 tou2 | 一量一量 yi2 liang4 yi2 liang4
教教材 jiao1 jiao4 cai2 | 等地拥有 deng3 di4 yong1 you3 | 各得酬劳 ge4 de2 chou2 lao2
听故事 ting1 gu4 shi4 | 剪指甲 jian2 zhi3 jia5
# Phrases of the dictionary are not split; 都会 in 家人都会唱 is two words.
还书 huan2 shu1 | 还书给我 huan2 shu1 gei2 wo3 | 去图书馆还书 qu4 tu2 shu1 guan3 huan2 shu1
和面 huo2 mian4 | 浓烟呛人 nong2 yan1 qiang4 ren2 | 一宿没睡 yi4 xiu3 mei2 shui4
家人都会唱 jia1 ren2 dou1 hui4 chang4 | 打的很响 da3 de5 hen2 xiang3
"""


@pytest.mark.parametrize("text, spoken", re.findall("([\u4e00-\u9fff]+) ([a-z0-9 ]+[1-5])", PHRASES))
def test_surrounding_words_decide_the_reading(text, spoken):
    assert pinyin.PinyinReader(has_sandhi=True).read(text) == spoken.split()


def test_nearly_all_phrases_of_the_dictionary_keep_their_readings():
    without, with_sandhi = pinyin.PinyinReader(), pinyin.PinyinReader(has_sandhi=True)
    phrases = sorted(phrase for phrase in constants.PHRASES_DICT if len(phrase) in (2, 3))[::10]

    def is_changed(hanzi, before, after):
        is_tone = before[:-1] == after[:-1] and (after[-1] == "5" or before[-1] + after[-1] == "32")
        return before != after and hanzi not in "一不" and not is_tone

    changed = [
        phrase
        for phrase in phrases
        if any(map(is_changed, phrase, without.read(phrase), with_sandhi.read(phrase)))
    ]
    assert len(phrases) > 2500 and len(changed) < 10, changed  # jieba's words alone would change 66 phrases


def test_a_reduplicated_verb_in_the_users_dictionary_keeps_its_reading():
    reader = pinyin.PinyinReader({"数一数": ("shu4", "yi1", "shu4")}, has_sandhi=True)
    assert reader.read("数一数") == ["shu4", "yi1", "shu4"]


def test_without_tone_sandhi_readings_come_from_the_dictionary():
    assert pinyin.PinyinReader().read("好朋友跑得很快") == "hao3 peng2 you3 pao3 de2 hen3 kuai4".split()


def test_readings_of_the_users_dictionary_are_kept():
    words, given = ["跑", "得", "朋友"], ["pao3", "de2", "peng2", "you3"]
    assert context_readings.correct(words, given, [False, True, True, True]) == given
    assert context_readings.correct(words, given, [False] * 4) == ["pao3", "de5", "peng2", "you5"]
    assert context_readings.correct([], [], []) == []
