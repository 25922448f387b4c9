import pytest

from estimator_asr.decoding.hotwords import hotword_list
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary

FORM = "Write WORD or WORD pin1 yin1, optionally followed by a boost, such as WORD 6."


def read(*words, path=None):
    return [str(hotword) for hotword in hotword_list.read(words, path)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("神雕侠侣", "神雕侠侣 shen2 diao1 xia2 lv3"),
        ("重庆", "重庆 chong2 qing4"),  # 重 alone is zhong4
        ("乐山 yue4 SHAN1", "乐山 yue4 shan1"),
        ("女 NÜ3 2.5", "女 nv3 2.500000"),
        ("重庆 12", "重庆 chong2 qing4 12.000000"),
        (" A股\t.5 ", "A股 a gu3 0.500000"),
        ("Ａ股 A gu3", "A股 a gu3"),
        ("MP3", "MP3 m p 3 4.000000"),
        ("MP3 m p 3", "MP3 m p 3 4.000000"),  # 3 is the last syllable, not a boost
        ("MP3 m p 3 5", "MP3 m p 3 5.000000"),
        ("MP3 5", "MP3 m p 3 5.000000"),
    ],
)
def test_hotwords_have_one_syllable_per_character(word, expected):
    assert read(word) == [expected]


def test_chinese_commas_separate_hotwords():
    assert read("神雕侠侣，重庆、北京 3") == [*read("神雕侠侣"), *read("重庆"), *read("北京 3")]


def test_yi_and_bu_are_read_with_and_without_the_dictionarys_tone_sandhi():
    assert read("十一倍 3", "不是") == [
        "十一倍 shi2 yi2 bei4 3.000000",
        "十一倍 shi2 yi1 bei4 3.000000",
        "不是 bu2 shi4",
        "不是 bu4 shi4",
    ]
    assert read("不及") == ["不及 bu4 ji2"]
    assert read("不是 bu2 shi4") == ["不是 bu2 shi4"]


def test_words_from_the_file_follow_the_words_from_the_flag(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("# names\n神雕侠侣\n\n  # places\n重庆 3\n")
    assert [hotword.split()[0] for hotword in read("北京", path=str(path))] == ["北京", "神雕侠侣", "重庆"]


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("神雕 shen2", "神雕 has 2 characters but 1 syllables"),
        ("神雕 shen2 diao", "'diao' is not a toned syllable"),
        ("神雕 shen2 diao1 1.2.3", "神雕 has 2 characters but 3 syllables"),
        ("神雕 0", "boost is 0, but must be above 0"),
        ("神雕 shen2 diao1 -2", "boost is -2, but must be above 0"),
        ("神雕 1000001", "boost is 1e+06, but must be at most 1000000"),
        ("神雕 " + "9" * 400, "boost is inf, but must be at most 1000000"),
        (" ", "the hotword is empty"),
    ],
)
def test_the_error_for_an_invalid_hotword_names_its_place(tmp_path, word, problem):
    with pytest.raises(errors.UserError) as refused:
        read("北京", word)
    assert str(refused.value) == f"--hotwords: word 2: {problem}. {FORM}"
    path = tmp_path / "words.txt"
    path.write_text(f"# one\n\n{word}\n")
    if word.strip():
        with pytest.raises(errors.UserError) as refused:
            read(path=str(path))
        assert str(refused.value) == f"--hotwords_file: {path}: line 3: {problem}. {FORM}"


def test_a_missing_hotword_file_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="no.txt: file does not exist; pass a text file"):
        read(path=str(tmp_path / "no.txt"))


def test_hotwords_with_syllables_that_the_model_lacks_are_found():
    words = hotword_list.read(["你好", "天好", "好A"], None)
    tokens = vocabulary.Vocabulary(["<unk>", "a", "hao3", "ni3"])
    assert hotword_list.find_unknown(words, tokens, "syllable") == words[1:2]
    toneless = vocabulary.Vocabulary(["<unk>", "A", "hao", "tian"])
    assert hotword_list.find_unknown(words, toneless, "toneless") == words[:1]
