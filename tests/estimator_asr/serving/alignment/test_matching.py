"""Sentences found among heard tokens; each letter stands for a token, and each word for a sentence."""

import numpy as np
import pytest

from estimator_asr.serving.alignment import matching, texts


def make(words):
    return [
        texts.TextSentence(
            tuple(texts.Phrase(part, tuple(part.strip("()")), "(" in part) for part in word.split("|"))
        )
        for word in words.split()
    ]


def match(words, heard):
    return match_tokens(make(words), list(heard))


def match_tokens(sentences, heard, frames_per_token=5):
    return matching.match(sentences, heard, [frames_per_token * i for i in range(len(heard))])


def list_ranges(found):
    return [[(item.text, item.first, item.end) for item in window] for window in found.windows]


def test_sentences_without_other_speech_between_them_are_one_window():
    found = match("abcd efgh ij", "abcdefghij")
    assert list_ranges(found) == [[("abcd", 0, 4), ("efgh", 4, 8), ("ij", 8, 10)]]
    assert (found.unsaid, found.unwritten, found.agreement) == ([], [], 1)


def test_errors_at_the_edges_belong_to_the_sentence():
    assert list_ranges(match("abcd efgh", "xbcyefgz")) == [[("abcd", 0, 4), ("efgh", 4, 8)]]


def test_speech_without_text_divides_windows():
    found = match("abcd efgh", "uvwabcdxyzefghst")
    assert list_ranges(found) == [[("abcd", 3, 7)], [("efgh", 10, 14)]]
    assert found.unwritten == [(0, 3), (7, 10)]  # two tokens at the end are not speech without text


@pytest.mark.parametrize("words", ["abcd nopq efgh", "abcd abcd efgh"])
def test_a_sentence_that_was_not_said_is_left_out(words):
    found = match(words, "abcdefgh")
    assert [item[1:] for window in list_ranges(found) for item in window] == [(0, 4), (4, 8)]
    assert [(sentence.text, place) for sentence, place in found.unsaid] in (
        [("nopq", 4)],
        [("abcd", 0)],
        [("abcd", 4)],
    )


def test_a_sentence_is_found_if_a_fifth_of_it_was_heard():
    found = match("abcd efghi klmn", "abcduvgwxklmn")
    assert list_ranges(found) == [[("abcd", 0, 4), ("efghi", 4, 9), ("klmn", 9, 13)]]
    found = match("abcd efghij klmn", "abcduvgwxyklmn")
    assert [(sentence.text, place) for sentence, place in found.unsaid] == [("efghij", 4)]


def test_a_quarter_of_a_phrase_in_brackets_is_not_enough():
    (window,) = match("ab|(wxyz)|cd", "abwcd").windows
    assert window[0].sentence.tokens == ("a", "b", "c", "d")


def test_a_phrase_in_brackets_is_kept_only_if_it_was_said():
    (window,) = match("ab|(xyz)|cd", "abcd").windows
    assert window[0].sentence.tokens == ("a", "b", "c", "d") and window[0].text == "ab(xyz)cd"
    (window,) = match("ab|(xyz)|cd", "abxyzcd").windows
    assert window[0].sentence.tokens == tuple("abxyzcd")


def test_texts_of_other_recordings_do_not_agree():
    rng = np.random.default_rng(1)
    words = [rng.integers(0, 400, 12) for _ in range(300)]
    sentences = [texts.TextSentence((texts.Phrase("", tuple(word)),)) for word in words]
    found = match_tokens(sentences, list(rng.integers(0, 400, 3600)))
    assert found.agreement < 0.01 and not found.windows


def test_a_text_of_one_or_two_tokens_can_agree():
    assert match("ab", "ab").agreement == match("a", "a").agreement == match("ab", "xaby").agreement == 1
    assert match("ab", "ac").agreement == match("abc", "abd").agreement == 0


def test_a_long_group_is_divided_between_sentences():
    """Each sentence lasts 500 frames."""
    words = make(" ".join("abcdefghij" for _ in range(60)))
    found = match_tokens(words, list("abcdefghij" * 60), frames_per_token=50)
    assert [len(window) for window in found.windows] == [6] * 10


@pytest.mark.parametrize("heard, border", [("abcdijklmnop", 4), ("abcdefghmnop", 8)])
def test_a_sentence_whose_end_or_start_was_not_heard_takes_no_tokens_from_its_neighbour(heard, border):
    found = match("abcdefgh ijklmnop", heard)
    assert list_ranges(found) == [[("abcdefgh", 0, border), ("ijklmnop", border, 12)]]


def test_no_heard_token_belongs_to_two_sentences():
    rng = np.random.default_rng(2)
    for _ in range(50):
        tokens = rng.integers(0, 6, 200).tolist()
        ends = [0, *sorted(rng.choice(range(1, 200), 20, replace=False)), 200]
        words = [texts.TextSentence((texts.Phrase("", tuple(tokens[a:b])),)) for a, b in zip(ends, ends[1:])]
        heard = [token for token in tokens if rng.random() < 0.7]
        found = match_tokens(words, heard)
        ranges = [item[1:] for window in list_ranges(found) for item in window]
        borders = [place for span in ranges for place in span]
        assert borders == sorted(borders) and all(first < end for first, end in ranges)
        assert not borders or (borders[0] >= 0 and borders[-1] <= len(heard))
