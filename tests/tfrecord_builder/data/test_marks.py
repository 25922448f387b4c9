"""Punctuation marks and the characters that they follow."""

import pytest

from tfrecord_builder.data import marks


def test_the_index_of_a_mark_is_its_id():
    assert marks.MARKS == ("", "，", "。", "？", "！", "、", "；", "：")


@pytest.mark.parametrize(
    "text, characters, mark_ids",
    [
        ("你好，世界。", "你好世界", [0, 1, 0, 2]),
        ("为什么？！", "为什么", [0, 0, 3]),  # the stronger of two marks
        ("好，。", "好", [2]),
        ("，你 好", "你好", [0, 0]),
        ("", "", []),
        ("“好”", "“好”", [0, 0, 0]),
    ],
)
def test_a_text_is_split_into_characters_and_marks(text, characters, mark_ids):
    assert marks.split(text) == (list(characters), mark_ids)


def test_an_unknown_character_is_one_character():
    assert marks.split("好<unk>，a") == (["好", "<unk>", "a"], [0, 1, 0])
    assert marks.join("好<unk>a", [0, 1, 0]) == "好<unk>，a"


@pytest.mark.parametrize("text", ["你好，世界。", "a b、c", "hello world：好", "没有"])
def test_joining_is_the_inverse_of_splitting(text):
    characters, mark_ids = marks.split(text)
    bare = "".join(c for c in text.replace("、", " ").replace("：", "") if c not in "，。")
    assert "".join(characters) == bare.replace(" ", "")
    assert marks.split(marks.join(bare, mark_ids)) == (characters, mark_ids)


def test_a_space_remains_unless_a_mark_takes_its_place():
    assert marks.join("ab cd ef", [0, 0, 0, 1, 0, 2]) == "ab cd，ef。"


def test_the_strongest_mark_ends_a_sentence():
    assert marks.MARKS[marks.strongest(0, 5, 1, 2)] == "。"
    assert marks.strongest(0, 0) == 0


@pytest.mark.parametrize(
    "text, has_mark, ends_with_mark",
    [
        ("iPhone 3.5发布", False, False),
        ("８：３０", True, False),
        ("花了3.5元．", True, True),
        ("很好，喜欢", True, False),
        ("他说:“好!”", True, True),
        ("走了……", True, True),
        ("好～", True, True),
        ("一带—路", False, False),
    ],
)
def test_a_mark_is_found_in_any_form(text, has_mark, ends_with_mark):
    assert (marks.has_mark(text), marks.ends_with_mark(text)) == (has_mark, ends_with_mark)


@pytest.mark.parametrize(
    "text, want",
    [
        ('他说:"好!"花了3.5元……', "他说：好！花了3.5元。"),
        ("增长３７％，3．6万元;8:30开会?", "增长37%，3.6万元；8:30开会？"),
        ("iPhone，iPad~~走了——《书》、(上).", "iPhone，iPad。走了，书、上。"),
        ("好<unk>，", "好<unk>，"),
    ],
)
def test_marks_of_any_kind_become_those_of_the_model_and_numbers_stay(text, want):
    assert marks.unify(text) == want
