"""Texts with punctuation marks are cut into pieces; parts whose marks are unknown are left out."""

import itertools
import math
import random
import re

import pytest

from tfrecord_builder import errors
from tfrecord_builder.corpora import punctuated, registry


def _write(directory, name, *paragraphs, encoding="utf-8"):
    directory.mkdir(exist_ok=True)
    (directory / name).write_text("\n".join(paragraphs) + "\n", encoding=encoding)


def _cut(*paragraphs, seed=1):
    return list(punctuated.cut(paragraphs, random.Random(seed)))


SENTENCES = [f"第{number}天我们去了北京，看了很多东西，也吃了烤鸭。" for number in range(400)]


def test_pieces_cover_the_text_and_run_across_paragraphs():
    pieces = _cut(*SENTENCES)
    assert "".join(pieces) == "".join(SENTENCES)
    assert all(9 < len(piece) < 210 for piece in pieces[:-1])
    assert any(piece.count("。第") > 1 for piece in pieces)
    is_sentence = [piece.endswith("。") for piece in pieces]
    assert 0.4 < sum(is_sentence) / len(pieces) < 0.8  # half of the pieces, and a few others by chance


def test_pieces_never_end_inside_a_number_or_a_word():
    text = [
        "价格是12345.67元和TensorFlow，以及2026年的iPhone。",
        "花了3.5元，１０：３０去3．5公里外，看example.com，有1,234,567人，http://a.cn在2026-11-27开。",
    ] * 200
    pieces = _cut(*text)
    cuts = "\n".join(pieces)
    assert "".join(pieces) == "".join(text)
    assert not re.search(r"[0-9A-Za-z０-９]\n|\n[，。”]", cuts)
    assert not re.search(r"[0-9A-Za-z０-９][-.,:/．：]\n[0-9A-Za-z０-９/]|/\n[/a]", cuts)


class Length(random.Random):
    """Makes `cut` choose pieces of a given length that do not end with a sentence."""

    def __init__(self, length: int):
        super().__init__()
        self._values = itertools.cycle([math.log(length / 10) / math.log(200 / 10), 0.9])

    def random(self) -> float:
        return next(self._values)


@pytest.mark.parametrize(
    "word", ["3.5元", "10:30开", "1,234人", "a.cn在", "http://a.cn的", "3．5元", "2026-11-27在", "1/3的"]
)
def test_a_cut_moves_to_the_end_of_a_number_or_an_address(word):
    text = "好" * 9 + word + "天" * 500 + "。"
    for length in range(10, 9 + len(word)):
        piece = next(punctuated.cut([text], Length(length)))
        assert piece == "好" * 9 + word, length


def test_the_same_text_is_cut_in_the_same_way():
    assert _cut(*SENTENCES) == _cut(*SENTENCES) != _cut(*SENTENCES, seed=2)


def test_the_last_character_of_a_paragraph_without_a_final_mark_is_left_out():
    assert _cut("很好，喜欢", "第二段。", "第三段，") == ["很好，喜", "第二段。第三段，"]
    assert _cut("（很好，喜欢）", "第二段。”") == ["（很好，喜", "第二段。”"]


def test_paragraphs_without_marks_are_left_out_and_counted(tmp_path, caplog):
    _write(tmp_path / "web", "train.txt", "标题", "第一句，第二句。", "", "没有标点", "完了。")
    (found,) = registry.list_utterances("punctuated", [str(tmp_path / "web")])
    assert (found.utterance_id, found.speaker, found.split) == ("web-train-1", "web", "train")
    assert (found.text, found.audio) == ("第一句，第二句。完了。", None)
    assert "2 paragraphs without a mark were left out" in caplog.text


def test_splits_have_the_usual_names_and_encodings(tmp_path):
    _write(tmp_path / "a", "train.txt", "我们今天去了北京的故宫，大家都很高兴。", encoding="gb18030")
    _write(tmp_path / "a", "valid.txt", "好。")
    found = list(registry.list_utterances("punctuated", [str(tmp_path / "a")]))
    assert list(dict.fromkeys(utterance.split for utterance in found)) == ["train", "dev"]


@pytest.mark.parametrize(
    "names, reason",
    [
        ([], "found no text, expected train.txt"),
        (["dev.txt", "valid.txt"], "some of dev.txt, valid.txt belong to the same split; merge them"),
    ],
)
def test_a_directory_that_cannot_be_read_is_refused(tmp_path, names, reason):
    for name in names:
        _write(tmp_path, name, "好。")
    with pytest.raises(errors.UserError, match=reason):
        list(punctuated.list_punctuated(str(tmp_path)))
