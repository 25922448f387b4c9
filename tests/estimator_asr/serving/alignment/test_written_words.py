"""The written words of a phrase, and the number of tokens in each."""

import pytest

from estimator_asr.serving.alignment import texts, written_words


def split(text, token_type="syllable"):
    return written_words.split(text, len(texts.make_tokeniser(token_type)(text)), token_type)


@pytest.mark.parametrize(
    "text, words",
    [
        ("今天，", [("今", 1), ("天，", 1)]),
        ("约5%的DVD店", [("约", 1), ("5%", 4), ("的", 1), ("DVD", 3), ("店", 1)]),
        ("2026—2027年", [("2026—2027", 9), ("年", 1)]),
        ("-5℃的Wi-Fi。", [("-5℃", 5), ("的", 1), ("Wi-Fi。", 4)]),
        ("12月8:30到", [("12", 2), ("月", 1), ("8:30", 5), ("到", 1)]),
        ("10m²很大", [("10m²", 4), ("很", 1), ("大", 1)]),
        ("“你好[3]", [("“你", 1), ("好[3]", 1)]),
        ("說話", [("說", 1), ("話", 1)]),
        ("Hello world", [("Hello ", 5), ("world", 5)]),
        ("50 %的", [("50 %", 5), ("的", 1)]),
    ],
)
def test_words_have_the_tokens_that_are_said_for_them(text, words):
    assert split(text) == words


def test_initials_and_finals_are_tokens_of_their_own():
    assert split("约5%的A", "initial_final") == [("约", 1), ("5%", 7), ("的", 2), ("A", 1)]


def test_characters_and_the_spaces_between_latin_words():
    assert split("说Hi me", "character") == [("说", 1), ("Hi", 2), (" ", 1), ("me", 2)]


def test_a_phrase_with_other_tokens_is_one_word():
    assert written_words.split("今天", 3, "syllable") == [("今天", 3)]
