"""Caption lines: where they end, and when they are shown."""

import unicodedata

import pytest

from estimator_asr.serving.transcripts import caption_lines


def split(text, starts, tokens=None, end=None):
    """Returns the lines for one segment; `starts` has the time of each token in seconds."""
    tokens = tokens or [character for character in text if character != " "]
    characters = [
        {"character": token, "start": start, "end": start + 0.04} for token, start in zip(tokens, starts)
    ]
    return caption_lines.split([(0.0, end or starts[-1] + 1.0, text, characters)])


def evenly(count, step=0.2):
    return [0.3 + step * i for i in range(count)]


def texts(lines):
    return [line.text for line in lines]


def test_a_line_ends_at_a_pause():
    starts = [0.3, 0.5, 0.7, 0.9, 1.1, 2.5, 2.7, 2.9]
    assert texts(split("今天天气好我们走", starts)) == ["今天天气好", "我们走"]


def test_a_line_ends_with_a_sentence_and_keeps_its_punctuation():
    assert texts(split("好。走吧！对", evenly(6, step=0.5))) == ["好。", "走吧！", "对"]
    assert texts(split("3.5米", evenly(4))) == ["3.5米"]


@pytest.mark.parametrize("start", [0.0, 0.3])
def test_a_sentence_that_would_be_on_screen_for_less_than_a_second_shares_a_line(start):
    tokens = ["好。", *"我们开始", "吧。", *"走"]
    starts = [start, *(start + 0.2 * (i + 1) for i in range(5)), start + 1.3]
    assert texts(split("".join(tokens), starts, tokens)) == ["好。我们开始吧。", "走"]
    starts[1:] = [second + 0.8 for second in starts[1:]]  # a pause
    assert texts(split("".join(tokens), starts, tokens)) == ["好。", "我们开始吧。", "走"]


@pytest.mark.parametrize("tokens", [["好。", *"好" * 18], ["好，", *"好" * 18], [*"好" * 18, "好，", "走"]])
def test_a_long_line_is_not_cut_at_a_mark_less_than_a_second_from_its_ends(tokens):
    assert min(map(len, texts(split("".join(tokens), evenly(len(tokens)), tokens)))) > 8


def test_a_long_line_is_cut_after_a_sentence_of_a_second():
    tokens = ["好。", *"好" * 5, "吧。", *"走" * 14]
    starts = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, *(1.29 + 0.2 * i for i in range(14))]
    assert [len(text) for text in texts(split("".join(tokens), starts, tokens))] == [9, 14]


def test_a_long_line_is_cut_at_its_longest_gap():
    starts = evenly(24)
    starts[10:] = [start + 0.4 for start in starts[10:]]
    assert [len(text) for text in texts(split("好" * 24, starts))] == [10, 14]


def test_a_long_line_is_cut_after_a_comma():
    assert [len(text) for text in texts(split("好" * 8 + "，" + "好" * 14, evenly(23)))] == [9, 14]


def test_a_line_is_cut_between_hanzi_and_letters_and_not_between_letters():
    assert texts(split("好" * 10 + "KTV" + "好" * 9, evenly(22))) == ["好" * 10, "KTV" + "好" * 9]
    assert texts(split("好" * 9 + "ABCD" + "好" * 9, evenly(22)))[0] in ("好" * 9, "好" * 9 + "ABCD")


def test_no_line_is_longer_than_18_hanzi_and_7_seconds():
    lines = split("一二三四五六七八九十" * 20, evenly(200, step=0.55))
    assert all(len(line.text) <= 18 and line.end_ms - line.start_ms <= 7700 for line in lines)
    assert "".join(texts(lines)) == "一二三四五六七八九十" * 20


def test_latin_lines_have_at_most_42_characters_and_whole_words():
    words = ["▁recogni", "tion", "▁of", "▁speech"] * 6
    text = "".join(words).replace("▁", " ").strip()
    lines = texts(split(text, evenly(len(words)), words))
    assert all(len(line) <= 42 for line in lines)
    assert " ".join(lines) == text
    assert {word for line in lines for word in line.split()} == {"recognition", "of", "speech"}


def test_spaces_of_character_models_are_only_in_the_transcript():
    lines = split("a b", evenly(3), ["a", "<space>", "b"])
    assert texts(lines) == ["a b"]


def test_a_line_begins_before_its_first_character_and_ends_after_its_last():
    assert split("你好", [1.0, 1.5], end=9.0) == [(800, 1940, "你好")]


def test_a_line_lasts_a_second_unless_the_next_begins_earlier():
    assert split("你", [1.0], end=9.0) == [(800, 1800, "你")]
    assert split("你。好", [1.0, 1.2, 1.95], end=9.0) == [(800, 1750, "你。"), (1750, 2750, "好")]


def test_a_transcript_without_times_is_spread_over_its_segment():
    lines = caption_lines.split([(10.0, 20.0, "一二三四五六七八九十", ())])
    assert texts(lines) == ["一二三四五", "六七八九十"]
    assert [(line.start_ms, line.end_ms) for line in lines] == [(10000, 14800), (14800, 20000)]


def test_wide_characters_are_those_of_unicode():
    assert caption_lines.needs_space("a", "b")
    assert not caption_lines.needs_space("好", "b")
    assert not caption_lines.needs_space(" ", "b")
    assert unicodedata.east_asian_width("ｶ") == "H" and caption_lines.needs_space("ｶ", "b")
