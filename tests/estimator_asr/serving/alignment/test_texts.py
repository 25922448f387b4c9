"""Published texts: their sentences, the tokens that a speaker says, and files that cannot be read."""

import re
import time

import pytest

from estimator_asr.serving.alignment import texts
from tfrecord_builder import errors

TOKENISE = texts.make_tokeniser("syllable")


def split(*lines):
    return list(texts.split_sentences(lines, TOKENISE))


def test_sentences_end_with_marks_and_lines_and_keep_what_is_written():
    found = split("第一章 春天", "他说：“真好吧！”然后走了。 好", "", "……")
    assert [sentence.text for sentence in found] == ["第一章 春天", "他说：“真好吧！”", "然后走了。", "好"]
    assert [phrase.text for phrase in found[1].phrases] == ["他说：", "“真好吧！”"]
    assert found[1].tokens == ("ta1", "shuo1", "zhen1", "hao3", "ba5")


@pytest.mark.parametrize(
    "text, said",
    [
        ("2026年", "er4 ling2 er4 liu4 nian2"),
        ("3.5公斤", "san1 dian2 wu3 gong1 jin1"),
        ("12.5%", "bai3 fen1 zhi1 shi2 er4 dian2 wu3"),
        ("真好[3]", "zhen1 hao3"),
        ("真好²", "zhen1 hao3"),
        ("10m²", "shi2 ping2 fang1 mi3"),
        ("8：30", "ba1 dian3 san1 shi2 fen1"),
        ("5—10个", "wu3 dao4 shi2 ge4"),
        ("2026—2027年", "er4 ling2 er4 liu4 dao4 er4 ling2 er4 qi1 nian2"),
        ("DVD店", "d v d dian4"),
        ("說話", "shuo1 hua4"),
        ("你好", "ni2 hao3"),
        ("不要一个", "bu2 yao4 yi2 ge4"),
    ],
)
def test_tokens_are_the_syllables_that_are_said(text, said):
    (sentence,) = split(text)
    assert " ".join(sentence.tokens) == said
    assert sentence.text == text


def test_phrases_in_brackets_may_be_silent():
    (sentence,) = split("今天（星期六）真好。")
    assert [(phrase.text, phrase.may_be_silent) for phrase in sentence.phrases] == [
        ("今天（", False),
        ("星期六）", True),
        ("真好。", False),
    ]


@pytest.mark.parametrize(
    "text, silent",
    [
        ("今天[星期六]真好。", ["星期六]"]),
        ("【标题】今天真好。", ["标题】"]),
        ("今天〔星期六〕真好｛吧｝。", ["星期六〕", "吧｝。"]),
        ("今天{星期六}真好。", ["星期六}"]),
        ("今天真好[注1]。", ["注1]。"]),
        ("今天真好①。", ["①"]),
        ("①今天真好。", ["①"]),
        ("今天[3]真好。", []),
        ("《今天》真好。", []),
    ],
)
def test_other_brackets_and_marks_of_notes_may_be_silent(text, silent):
    (sentence,) = split(text)
    assert [phrase.text for phrase in sentence.phrases if phrase.may_be_silent] == silent
    assert sentence.text == text


def test_traditional_characters_that_a_model_does_not_know_are_simplified():
    sentences = list(texts.split_sentences(["說話，國语。"], texts.make_tokeniser("character")))
    (sentence,) = texts.simplify(sentences, ["说", "话", "話", "语"])
    assert sentence.tokens == ("说", "話", "國", "语") and sentence.text == "說話，國语。"


def test_text_without_marks_is_divided_into_phrases_and_numbers_stay_whole():
    (sentence,) = split("一二三四五六七八九十" * 2 + "到2026年")
    assert [phrase.text for phrase in sentence.phrases] == ["一二三四五六七八九十" * 2, "到2026年"]


def test_a_long_line_is_several_sentences():
    found = split("今天天气真好我们去，" * 3000)
    assert [len(sentence.tokens) for sentence in found] == [63] * 428 + [36]
    assert [sentence.is_whole for sentence in found] == [False] * 428 + [True]
    assert "".join(sentence.text for sentence in found) == "今天天气真好我们去，" * 3000
    assert [sentence.is_whole for sentence in split("今天天气真好我们去，" * 7)] == [True]


def test_a_long_line_without_hanzi_takes_no_time():
    start = time.process_time()
    found = split("3,4 5.6 " * 5000)
    assert sum(len(sentence.tokens) for sentence in found) > 20000 and time.process_time() - start < 5


@pytest.mark.parametrize("text", ["今天。\r\n明天。\r\n", "\ufeff今天。\n\n\t明天。"])
def test_line_breaks_tabs_and_a_byte_order_mark_are_no_words(tmp_path, text):
    (tmp_path / "a.txt").write_bytes(text.encode())
    found = texts.read_sentences(str(tmp_path / "a.txt"), TOKENISE)
    assert [sentence.tokens for sentence in found] == [("jin1", "tian1"), ("ming2", "tian1")]


@pytest.mark.parametrize(
    "token_type, tokens",
    [
        ("toneless", ("jin", "tian")),
        ("initial_final", ("j", "in1", "t", "ian1")),
        ("character", ("今", "天")),
    ],
)
def test_other_types_of_tokens(token_type, tokens):
    (sentence,) = texts.split_sentences(["今天。"], texts.make_tokeniser(token_type))
    assert sentence.tokens == tokens


def test_gb18030_is_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("今天的天气不错，我们去公园。\n".encode("gb18030"))
    (sentence,) = texts.read_sentences(str(path), TOKENISE)
    assert sentence.tokens[:4] == ("jin1", "tian1", "de5", "tian1")


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"\n* * *\n", " contains no words; write what is said in the"),
        ("今天".encode("big5"), ": byte 0 is not UTF-8. The file must be UTF-8"),
    ],
)
def test_a_text_without_words_or_in_another_encoding_is_refused(tmp_path, content, problem):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(errors.UserError, match=re.escape(f"a.txt{problem}")):
        texts.check(str(tmp_path / "a.txt"))


def test_subwords_are_refused():
    problem = "the tokens of the model are subwords .bpe., with which text cannot be aligned"
    with pytest.raises(errors.UserError, match=problem):
        texts.make_tokeniser("bpe")
