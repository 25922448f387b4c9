"""Pronunciation of words in toned pinyin: dictionary readings for labels, tone sandhi for synthesis.

    read("一起")  -> yi1 qi3        spoken(["一起", "走"])     -> yi4qi2 zou3
    read("不")    -> bu4            spoken(["不", "会", "说"]) -> bu2 hui4 shuo1

The labels are dictionary readings, as in most Mandarin corpora: 一 is yi1, 不 is bu4 and a third tone stays,
whatever follows. (pinyin.Reader, which labels any transcript, keeps third tones too, but some of
pypinyin's phrases contain the sandhi of 一 and 不: 一个 is yi2 ge4, 不要 bu2 yao4.) eSpeak NG speaks each
tone as it is written, so its input has the sandhi of a speaker.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tfrecord_builder.labels import pinyin, tone_sandhi

# Words whose reading in pypinyin is not that of Xiandai Hanyu Cidian or contains sandhi, and single hanzi
# with several readings.
READINGS: dict[str, str] = {
    "一共": "yi1 gong4",
    "一点": "yi1 dian3",
    "一起": "yi1 qi3",
    "不要": "bu4 yao4",
    "先生": "xian1 sheng5",
    "哪里": "na3 li5",
    "喜欢": "xi3 huan5",
    "多少": "duo1 shao5",
    "妈妈": "ma1 ma5",
    "学生": "xue2 sheng5",
    "慢慢地": "man4 man4 de5",
    "早上": "zao3 shang5",
    "晚上": "wan3 shang5",
    "有意思": "you3 yi4 si5",
    "朋友": "peng2 you5",
    "爸爸": "ba4 ba5",
    "窗户": "chuang1 hu5",
    "衣服": "yi1 fu5",
    "调": "tiao2",
    "谢谢": "xie4 xie5",
    "豆腐": "dou4 fu5",
    "路上": "lu4 shang5",
    "还书": "huan2 shu1",
}


def read(word: str) -> list[str]:
    """Returns the dictionary reading of a word, one syllable per hanzi."""
    return READINGS[word].split() if word in READINGS else pinyin.Reader().read(word)


def spoken(words: Sequence[str]) -> list[str]:
    """Returns the words in pinyin with tone sandhi, the syllables of a word written together."""
    syllables = [syllable for word in words for syllable in read(word)]
    changed = iter(tone_sandhi.change_tones(words, syllables, [False] * len(syllables)))
    return ["".join(itertools.islice(changed, len(word))) for word in words]
