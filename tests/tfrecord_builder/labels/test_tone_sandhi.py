import re

import pytest

from tfrecord_builder.labels import pinyin, tone_sandhi

READER = pinyin.PinyinReader(has_sandhi=True)
# Phrases and their pinyin, separated by |.
PHRASES = """
# Third and neutral tones; speakers pause after a word of three hanzi, as in 红火蚁走了.
你好 ni2 hao3 | 小姐 xiao2 jie3 | 很高 hen3 gao1 | 你很好 ni2 hen2 hao3 | 他很好 ta1 hen2 hao3
我也很好 wo2 ye3 hen2 hao3 | 你好吗 ni2 hao3 ma5 | 好看你好 hao3 kan4 ni2 hao3 | 花儿 hua1 er2
小鸟儿 xiao2 niao3 er2 | 李院长走 li3 yuan4 zhang2 zou3 | 好 hao3 | 红火蚁走了 hong2 huo2 yi3 zou3 le5
老展览 lao3 zhan2 lan3 | 所以 suo2 yi3 | 管理 guan2 li3 | 领导 ling2 dao3 | 水果 shui2 guo3 | 老鼠 lao2 shu3
好水果 hao3 shui2 guo3 | 我管理水果 wo3 guan2 li3 shui2 guo3
老鼠想管理领导 lao2 shu2 xiang3 guan2 li3 ling2 dao3 | 我很好 wo2 hen2 hao3 | 展览馆 zhan2 lan2 guan3
管理者 guan2 li2 zhe3 | 小老虎 xiao3 lao2 hu3 | 李小姐 li3 xiao2 jie3 | 美好理想 mei2 hao3 li2 xiang3
请给我水果 qing2 gei2 wo3 shui2 guo3 | 他买雨伞 ta1 mai3 yu2 san3 | 海里有水 hai2 li3 you2 shui3
上海有小雨 shang4 hai2 you3 xiao2 yu3 | 老师很忙 lao3 shi1 hen3 mang2 | 我们的 wo3 men5 de5 | 好的 hao3 de5
妈妈给姐姐水果 ma1 ma5 gei2 jie3 jie5 shui2 guo3 | 想想 xiang2 xiang3
# 不; 差不多 keeps the neutral tone of the dictionary.
不对 bu2 dui4 | 不是 bu2 shi4 | 不好 bu4 hao3 | 不来 bu4 lai2 | 偏不 pian1 bu4 | 好不好 hao3 bu4 hao3
是不是 shi4 bu2 shi4 | 不不不 bu2 bu2 bu4 | 差不多 cha4 bu5 duo1
# 一
一个 yi2 ge4 | 一定 yi2 ding4 | 一天 yi4 tian1 | 一年 yi4 nian2 | 一起 yi4 qi3 | 一些 yi4 xie1
看一看 kan4 yi5 kan4 | 一天一天 yi4 tian1 yi4 tian1 | 第一名 di4 yi1 ming2 | 统一 tong3 yi1
唯一的 wei2 yi1 de5 | 周一见 zhou1 yi1 jian4 | 一月一号 yi1 yue4 yi1 hao4 | 十一个 shi2 yi1 ge4
一二三 yi1 er4 san1 | 一九九八年 yi1 jiu2 jiu3 ba1 nian2 | 一百一十 yi4 bai3 yi1 shi2 | 一万 yi2 wan4
一点 yi4 dian3 | 一点五 yi1 dian2 wu3 | 数一数二 shu3 yi1 shu3 er4 | 三缺一 san1 que1 yi1
三缺一上 san1 que1 yi1 shang4 | 三网合一的 san1 wang3 he2 yi1 de5 | 一是太贵 yi1 shi4 tai4 gui4
这一是非 zhe4 yi2 shi4 fei1 | 一线城市 yi1 xian4 cheng2 shi4 | 一下 yi2 xia4 | 第一 di4 yi1
一九九八 yi1 jiu2 jiu3 ba1 | 一千一百 yi4 qian1 yi4 bai3 | 第一百 di4 yi1 bai3 | 逐一 zhu2 yi1
一审 yi1 shen3
"""


@pytest.mark.parametrize("hanzi, expected", re.findall("([\u4e00-\u9fff]+) ([a-z0-9 ]+[1-5])", PHRASES))
def test_tones_of_a_phrase(hanzi, expected):
    assert READER.read(hanzi) == expected.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("老 展览", "3 2 3"),
        ("展览 馆", "2 2 3"),
        ("展览馆", "2 2 3"),
        ("老 展览 馆", "3 2 2 3"),
        ("展览 展览", "2 3 2 3"),
        ("老 馆 老 馆 老", "2 3 2 2 3"),
    ],
)
def test_words_form_feet(words, expected):
    hanzi = words.replace(" ", "")
    changed = tone_sandhi.change_tones(words.split(), ["a3"] * len(hanzi), [False] * len(hanzi))
    assert [syllable[-1] for syllable in changed] == expected.split()


def test_fixed_syllables_do_not_change_but_affect_others():
    words, given = ["你", "好", "不", "对"], ["ni3", "hao3", "bu4", "dui4"]
    assert tone_sandhi.change_tones(words, given, [True, False, True, False]) == given
    assert tone_sandhi.change_tones(["你", "好"], ["ni3", "hao3"], [False, True]) == ["ni2", "hao3"]


def test_other_readings_and_hanzi_without_a_reading_do_not_change():
    assert tone_sandhi.change_tones(["不", "𪻺"], ["fou3", "𪻺"], [False, False]) == ["fou3", "𪻺"]
    assert tone_sandhi.change_tones([], [], []) == []
