import random
import re

import pypinyin
import pytest
from pypinyin import constants

from tfrecord_builder import errors
from tfrecord_builder.labels import pinyin

READER = pinyin.PinyinReader()


def _join(syllables):
    return " ".join(syllables)


@pytest.mark.parametrize(
    ("hanzi", "expected"),
    [
        ("银行行长", "yin2 hang2 hang2 zhang3"),  # the phrases 银行 and 行长 determine the reading of 行
        ("我们的女儿", "wo3 men5 de5 nv3 er2"),
        ("一个", "yi2 ge4"),  # some phrases of the dictionary contain the tone sandhi of 一 and 不
        ("一天", "yi1 tian1"),  # not a phrase of the dictionary
        ("你好", "ni3 hao3"),  # the dictionary has no tone sandhi of third tones
        ("石头", "shi2 tou5"),
        ("一块石头", "yi1 kuai4 shi2 tou2"),  # the beginning of the phrase 一块石头落地
        ("花儿", "hua1 er2"),
        ("𪻺𪻺好", "𪻺 𪻺 hao3"),  # not in the dictionary
        ("let it淮", "l e t i t huai2"),
        ("3楼", "3 lou2"),
        ("", ""),
    ],
)
def test_read(hanzi, expected):
    assert READER.read(hanzi) == expected.split()


def test_reader_agrees_with_pypinyin():
    """The reader segments words itself; the reference is pypinyin with its own segmentation."""
    rng = random.Random(1)
    phrases = sorted(phrase for phrase in constants.PHRASES_DICT if "，" not in phrase)
    characters = sorted({character for phrase in phrases for character in phrase})
    for _ in range(300):
        hanzi = "".join(rng.choice(rng.choice([phrases, characters])) for _ in range(6))
        hanzi = hanzi[rng.randrange(3) : -rng.randrange(1, 4)]
        options = dict(style=pypinyin.Style.TONE3, neutral_tone_with_five=True, v_to_u=False)
        assert READER.read(hanzi) == pypinyin.lazy_pinyin(hanzi, **options), hanzi


def test_user_phrases_take_precedence_over_the_dictionary():
    assert _join(READER.read("重庆单雄信")) == "chong2 qing4 dan1 xiong2 xin4"
    reader = pinyin.PinyinReader(
        {"单雄信": ("shan4", "xiong2", "xin4"), "重庆": ("zhong4", "qing4"), "乐": ("yue4",)}
    )
    assert _join(reader.read("重庆单雄信乐")) == "zhong4 qing4 shan4 xiong2 xin4 yue4"
    assert _join(reader.read("快乐")) == "kuai4 le4"  # the dictionary has this longer word


def test_the_longest_word_of_either_dictionary_is_chosen():
    reader = pinyin.PinyinReader({"行长": ("hang2", "zhang3")})
    assert _join(reader.read("银行长期")) == "yin2 hang2 chang2 qi1"
    assert _join(reader.read("问行长期限")) == "wen4 hang2 zhang3 qi1 xian4"
    at_the_end = pinyin.PinyinReader({"石头": ("shi2", "tou5")})
    assert _join(at_the_end.read("一块石头")) == "yi1 kuai4 shi2 tou5"
    longer = pinyin.PinyinReader({"你好啊": ("ni3", "hao3", "a1")})
    assert _join(longer.read("你好啊")) == "ni3 hao3 a1"


def test_a_reader_does_not_change_pypinyins_tables():
    before = len(constants.PHRASES_DICT), len(constants.PINYIN_DICT)
    pinyin.PinyinReader({"重庆": ("zhong4", "qing4"), "乐": ("yue4",)}).read("重庆乐")
    assert _join(pinyin.PinyinReader().read("重庆乐")) == "chong2 qing4 le4"
    assert (len(constants.PHRASES_DICT), len(constants.PINYIN_DICT)) == before


def test_sandhi_does_not_change_user_phrases():
    assert _join(pinyin.PinyinReader(has_sandhi=True).read("你好一天")) == "ni2 hao3 yi4 tian1"
    reader = pinyin.PinyinReader({"李小": ("li3", "xiao3"), "一号": ("yi4", "hao4")}, has_sandhi=True)
    assert _join(reader.read("李小也好")) == "li3 xiao3 ye2 hao3"
    assert _join(reader.read("我李小一号")) == "wo2 li3 xiao3 yi4 hao4"


def test_user_phrases_are_words_for_sandhi():
    assert _join(pinyin.PinyinReader(has_sandhi=True).read("我领导你")) == "wo3 ling2 dao2 ni3"
    reader = pinyin.PinyinReader({"导你": ("dao3", "ni3")}, has_sandhi=True)
    assert _join(reader.read("我领导你")) == "wo2 ling2 dao3 ni3"  # 我 and 领 form a pair


def test_dictionary_readings():
    assert set(pinyin.dictionary_readings("行")) >= {"xing2", "hang2"}
    assert pinyin.dictionary_readings("女")[0] == "nv3"
    assert pinyin.dictionary_readings("的")[0] == "de5"
    assert pinyin.dictionary_readings("a") == pinyin.dictionary_readings("𪻺") == []


def _load(tmp_path, content):
    path = tmp_path / "names.tsv"
    path.write_text(content, "utf-8")
    return pinyin.load_phrases(str(path))


def test_user_dictionary_is_loaded(tmp_path):
    content = "\ufeff重庆\tchong2 qing4\r\n\n绿 \tLÜ4\n女儿国\tnu:3 er2 guo2\n"
    assert _load(tmp_path, content) == {
        "重庆": ("chong2", "qing4"),
        "绿": ("lv4",),
        "女儿国": ("nv3", "er2", "guo2"),
    }


def test_compatibility_ideographs_of_the_user_dictionary_are_normalised(tmp_path):
    assert _load(tmp_path, "\uf914\tle4\n") == {"\u6a02": ("le4",)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("重庆 chong2 qing4", "the tab is missing"),
        ("\tchong2", "the phrase '' does not consist of hanzi"),
        ("A楼\ta lou2", "the phrase 'A楼' does not consist of hanzi"),
        ("重庆\tchong2", "重庆 has 2 hanzi but 1 syllables"),
        ("重庆\t", "重庆 has 2 hanzi but 0 syllables"),
        ("重庆\tchong qing4", "'chong' is not a toned syllable"),
        ("重庆\tchóng qìng", "'chóng' is not a toned syllable"),
        ("重庆\tchong2 bzz4", "'bzz4' is not a toned syllable"),
        ("重庆\tchong2 qing0", "'qing0' is not a toned syllable"),
        ("重庆\tchong2´ qing4", "'chong2´' is not a toned syllable"),  # NFKC adds a space
        ("重庆\tchong2\u200b qing4", "'chong2\\u200b' is not a toned syllable"),
        ("一\tyi1", "一 is a duplicate"),
    ],
)
def test_the_error_for_a_wrong_line_of_the_user_dictionary_names_it(tmp_path, line, message):
    whole = f"names.tsv: line 2: {message}. Fix the line; the expected form is phrase<TAB>pin1 yin1."
    with pytest.raises(errors.UserError, match=re.escape(whole)):
        _load(tmp_path, f"一\tyi1\n{line}\n")


def test_a_missing_user_dictionary_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="none.tsv: file does not exist.*phrase<TAB>pin1 yin1"):
        pinyin.load_phrases(str(tmp_path / "none.tsv"))
