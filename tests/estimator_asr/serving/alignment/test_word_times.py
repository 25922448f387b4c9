"""Begins and ends of tokens that CTC emits in frames of 40 ms."""

from __future__ import annotations

import pytest

from estimator_asr.serving.alignment import word_times


def test_a_token_begins_between_two_emissions_and_ends_with_the_next_one():
    """The middles are at 520, 740 and 960 ms; 40 % of 220 ms are 88 ms."""
    emissions = [[500, 540], [720, 760], [920, 1000]]
    assert word_times.find_times(emissions) == [
        {"start": 0.4, "end": 0.652},
        {"start": 0.652, "end": 0.872},
        {"start": 0.872, "end": 1.16},
    ]


def test_before_a_pause_a_token_ends_and_after_it_one_begins_beside_its_emission():
    first, second = word_times.find_times([[0, 40], [1000, 1040]])
    assert first == {"start": 0.0, "end": 0.22} and second == {"start": 0.9, "end": 1.22}


def test_tokens_in_successive_frames_do_not_overlap():
    times = word_times.find_times([[40 * i, 40 * i + 40] for i in range(50)])
    assert all(item["start"] < item["end"] for item in times)
    assert all(first["end"] == second["start"] for first, second in zip(times, times[1:]))


def test_no_tokens_have_no_times():
    assert word_times.find_times([]) == []


@pytest.mark.parametrize(
    "text, word",
    [
        ("好。", "好"),
        ("“今", "今"),
        ("5%，", "5%"),
        ("-5℃", "-5℃"),
        ("米[3]。", "米"),
        ("Wi-Fi ", "Wi-Fi"),
        ("…", ""),
    ],
)
def test_words_have_no_punctuation_around_them(text, word):
    row = {"text": text, "score": 0.7, "words": [[text, [["a1", 200, 240, 0.5], ["b2", 400, 440, 1.0]]]]}
    assert word_times.list_utterances([row]) == [
        {
            "start": 0.1,
            "end": 0.62,
            "text": text,
            "score": 0.7,
            "words": [
                {
                    "start": 0.1,
                    "end": 0.62,
                    "text": word,
                    "score": 0.75,
                    "tokens": [
                        {"start": 0.1, "end": 0.34, "token": "a1", "score": 0.5},
                        {"start": 0.34, "end": 0.62, "token": "b2", "score": 1.0},
                    ],
                }
            ],
        }
    ]
