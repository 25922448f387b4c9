from __future__ import annotations

import pytest

from estimator_asr.scoring import breakdown, utterances


def syllables(name, speaker, reference, hypothesis):
    return utterances.score(utterances.TOKEN_ERROR_RATE, name, speaker, reference, hypothesis)


SCORED = [
    syllables("u1", "fdu04", "shu4 zi4", "shu4 ci2"),
    syllables("u2", "fdu19", "yu3 yin1", "yu3 yin1"),
    syllables("u3", "S0150", "she4 ding4 er4 shi2 jiu3 du4", "she4 ci2 shi2 jiu3"),
    syllables("u4", "-", "zi4", "ci2"),
]


def test_characters_exclude_whitespace_and_keep_unk_as_one():
    assert utterances.split_characters("你 好A<unk>") == ("你", "好", "A", "<unk>")
    scored = utterances.score(utterances.CHARACTER_ERROR_RATE, "u", "s", "今天天气", "今天<unk>气")
    assert scored.edits == (1, 0, 0, 4)


def test_by_speaker():
    rates = breakdown.by_speaker(SCORED)
    assert {name: (rate.errors, rate.reference_length) for name, rate in rates.items()} == {
        "-": (1, 1),
        "S0150": (3, 6),
        "fdu04": (1, 2),
        "fdu19": (0, 2),
    }


def test_by_group_joins_speakers_by_what_the_pattern_matches():
    rates = breakdown.by_group(SCORED, "^[A-Za-z]+")
    assert {name: (rate.errors, rate.reference_length) for name, rate in rates.items()} == {
        "S": (3, 6),
        "fdu": (1, 4),
        "other": (1, 1),
    }
    assert rates["fdu"].rate == pytest.approx(0.25)


def test_by_length_names_bins_shortest_first():
    rates = breakdown.by_length(
        [*SCORED, syllables("u5", "s", "", "a"), syllables("u6", "s", "a " * 40, "a " * 40)]
    )
    assert {name: rate.errors for name, rate in rates.items()} == {"0": 1, "1": 1, "2": 1, "5-6": 3, "33+": 0}
    assert list(rates)[0] == "0"


def test_worst_has_most_errors_first_and_no_correct_utterance():
    assert [utterance.utterance_id for utterance in breakdown.worst(SCORED, 10)] == ["u3", "u4", "u1"]
    assert len(breakdown.worst(SCORED, 2)) == 2


def test_confusions_most_frequent_first():
    assert breakdown.confusions(SCORED, 1) == [(("zi4", "ci2"), 2)]


def test_corpora_of_text_are_not_resampled_as_speakers():
    text = [
        syllables(f"u{i}", f"corpus{i % 2}", f"a b c {i}", f"a {'b' if i % 2 else 'x'} c {i}")
        for i in range(200)
    ]
    as_text = breakdown.overall(text, are_speakers_people=False)
    as_people = breakdown.overall(text, are_speakers_people=True)
    assert as_text.rate == as_people.rate == 0.125
    low, high = as_text.confidence_interval
    assert high - low < 0.05 < as_people.confidence_interval[1] - as_people.confidence_interval[0]


def unknown_speakers(count, speaker):
    return [
        syllables(f"u{i}", speaker(i), f"a b c {i}", f"a {'x' if i % 4 else 'b'} c {i}") for i in range(count)
    ]


@pytest.mark.parametrize("unknown", ["", "corpus/"])
def test_utterances_of_unknown_speakers_count_as_speakers_of_their_own(unknown):
    """As one speaker together they would never be resampled, which narrows the interval."""
    found, expected, as_one = (
        breakdown.overall(unknown_speakers(200, speaker)).confidence_interval
        for speaker in (lambda i: unknown, lambda i: f"{i:03d}", lambda i: "s")
    )
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], rel=0.1)
    assert found[1] - found[0] > 1.5 * (as_one[1] - as_one[0])
