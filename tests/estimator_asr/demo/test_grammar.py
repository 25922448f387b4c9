"""The demo's grammar: readings of polyphones, tone sandhi in the speech alone, and punctuation marks."""

import random
import re

import pytest

from estimator_asr.demo import grammar
from tfrecord_builder.data import marks, syllables
from tfrecord_builder.labels import normalisation, pinyin
from tfrecord_builder.synthesis import espeak, prompts, text_plan

_PARTS = {part for each in grammar.RULES.values() for expansion in each for part in expansion.split()}
WORDS = sorted(_PARTS - {*grammar.RULES, *marks.MARKS})

# Every word in the grammar that contains a polyphone, for which a dictionary could return a wrong reading.
POLYPHONES = """
一点 yi1 dian3, 一起 yi1 qi3, 不 bu4, 不要 bu4 yao4, 为什么 wei4 shen2 me5, 会议 hui4 yi4,
便宜 pian2 yi5, 先生 xian1 sheng5, 几 ji3, 分钟 fen1 zhong1, 号码 hao4 ma3, 和 he2, 慢慢地 man4 man4 de5,
地铁 di4 tie3, 都 dou1, 成都 cheng2 du1, 首都 shou3 du1, 多少 duo1 shao5, 方便 fang1 bian4,
校长 xiao4 zhang3, 长城 chang2 cheng2, 长沙 chang2 sha1, 睡觉 shui4 jiao4, 觉得 jue2 de5, 空气 kong1 qi4,
空调 kong1 tiao2, 调 tiao2, 行李 xing2 li3, 银行 yin2 hang2, 快乐 kuai4 le4, 可乐 ke3 le4,
音乐 yin1 yue4, 有意思 you3 yi4 si5, 朋友 peng2 you5, 还 hai2, 还书 huan2 shu1, 重庆 chong2 qing4,
重要 zhong4 yao4, 比较 bi3 jiao4, 数学 shu4 xue2, 房间 fang2 jian1, 了 le5, 张 zhang1, 转 zhuan3,
在 zai4, 正在 zheng4 zai4, 好 hao3, 放 fang4, 绿茶 lv4 cha2, 那 na4, 哪里 na3 li5, 没有 mei2 you3,
火车 huo3 che1, 出租车 chu1 zu1 che1, 衣服 yi1 fu5, 服务员 fu2 wu4 yuan2, 晚上 wan3 shang5, 上 shang4,
上海 shang4 hai3
"""


@pytest.mark.parametrize("entry", POLYPHONES.strip().split(","))
def test_words_determine_the_readings_of_polyphones(entry):
    word, *reading = entry.split()
    assert word in WORDS
    assert grammar.read(word) == reading


def test_every_hanzi_of_the_grammar_has_one_syllable():
    for word in WORDS:
        assert all(normalisation.is_hanzi(character) for character in word), word
        assert len(grammar.read(word)) == len(word), word
        assert all(syllables.split_syllable(syllable) for syllable in grammar.read(word)), word


def test_marks_are_not_read():
    assert _PARTS & set(marks.MARKS) == set("，。？！、")
    assert grammar.read_words(["对不起", "，", "几", "？"]) == ["dui4", "bu4", "qi3", "ji3"]


_QUESTION = re.compile("几|多少|怎么|哪里|什么|有没有|吗$")


@pytest.fixture(scope="module")
def sampled():
    rng = random.Random(1)
    return {"".join(grammar.sample_sentence(rng)) for _ in range(5000)}


def test_every_sentence_ends_with_the_right_mark(sampled):
    for sentence in sampled:
        assert re.fullmatch("[^。？！]+[。？！]", sentence)
        assert (sentence[-1] == "？") == bool(_QUESTION.search(sentence[:-1])), sentence
    assert {sentence[-1] for sentence in sampled} == set("。？！")


def test_a_list_has_marks_between_its_items(sampled):
    lists = {sentence for sentence in sampled if "、" in sentence}
    assert lists == {sentence for sentence in sampled if re.fullmatch(r"\w+、\w+和\w+。", sentence)}
    assert {"我要买豆腐、面条和咖啡。", "妈妈会说中文、英文和日语。"} <= lists


@pytest.mark.parametrize(
    "sentence", ["对不起，我不会说法语。", "声音太大了，小一点！", "祝你生日快乐！", "明天早上会下雨吗？"]
)
def test_clauses_exclamations_and_questions(sampled, sentence):
    assert sentence in sampled


def test_every_word_with_its_own_reading_occurs_in_the_grammar():
    assert set(grammar.READINGS) <= set(WORDS)


def test_labels_have_no_tone_sandhi_of_yi_and_bu():
    for word in WORDS:
        for hanzi, syllable in zip(word, grammar.read(word)):
            assert {"一": "yi1", "不": "bu4"}.get(hanzi, syllable) == syllable, word


def test_some_pypinyin_phrases_contain_tone_sandhi():
    """The labels of other transcripts therefore contain tone sandhi; the labels of the demo do not."""
    assert pinyin.PinyinReader().read("一个不要一起") == ["yi2", "ge4", "bu2", "yao4", "yi4", "qi3"]
    words = ("一", "个", "不要", "一起")
    assert [s for word in words for s in grammar.read(word)] == "yi1 ge4 bu4 yao4 yi1 qi3".split()


SANDHI = """
不 会 说: bu2 hui4 shuo1, 不 高兴: bu4 gao1xing4, 不要 跑: bu2yao4 pao3, 一 个: yi2 ge4,
一 杯 绿茶: yi4 bei1 lv4cha2, 一 百 零 一 页: yi4 bai3 ling2 yi1 ye4, 二十 一 个: er4shi2 yi1 ge4,
第 一 名: di4 yi1 ming2, 一 月: yi1 yue4, 星期 一: xing1qi1 yi1, 十一 点: shi2yi1 dian3,
一起 去: yi4qi3 qu4, 一共 是: yi2gong4 shi4, 很 好: hen2 hao3, 我 想 买: wo2 xiang2 mai3, 小姐: xiao2jie3,
李 小姐 想 买 水: li3 xiao2jie3 xiang2 mai2 shui3, 香港 有 小雨: xiang1gang2 you3 xiao2yu3
"""


@pytest.mark.parametrize("entry", SANDHI.strip().split(","))
def test_synthesised_words_have_tone_sandhi(entry):
    words, said = entry.split(":")
    sentence, pinyin = "".join(words.split()), tuple(grammar.read_words(words.split()))
    _, phrases = text_plan._segment(sentence, sentence)
    prompt = prompts.Prompt("u1", "train", None, phrases, pinyin, sentence)
    assert "".join(espeak.EspeakEngine(seed=1).spell(prompt)) == said.replace(" ", "")
