"""Compares biased and unbiased error rates with counts by hand."""

import pytest

from estimator_asr.scoring import biasing, utterances
from estimator_asr.scoring.reports import scored_split

HOTWORDS = ["重庆 chong2 qing4 4.000000", "北京 bei3 jing1"]


def counts(reference, hypothesis, hotwords=HOTWORDS, measure=utterances.CHARACTER_ERROR_RATE):
    scored = [utterances.score(measure, "u", "s", reference, hypothesis)]
    rates = biasing.measure(hotwords, measure, scored)
    assert list(rates) == ["biased_error_rate", "unbiased_error_rate"]
    return [
        (rate.substitutions, rate.insertions, rate.deletions, rate.reference_length)
        for rate in rates.values()
    ]


@pytest.mark.parametrize(
    ("reference", "hypothesis", "biased", "unbiased"),
    [
        ("我在重庆", "我在重庆", (0, 0, 0, 2), (0, 0, 0, 2)),
        ("我在重庆", "我在从庆", (1, 0, 0, 2), (0, 0, 0, 2)),
        ("我在重庆", "他在重庆", (0, 0, 0, 2), (1, 0, 0, 2)),
        ("我在重庆", "我在", (0, 0, 2, 2), (0, 0, 0, 2)),
        ("我在", "我在重庆", (0, 2, 0, 0), (0, 0, 0, 2)),  # an inserted hotword
        ("我在", "我在重", (0, 0, 0, 0), (0, 1, 0, 2)),  # an inserted part of a hotword
        ("我在这里", "我在北京", (0, 0, 0, 0), (2, 0, 0, 4)),  # the reference decides for substitutions
        ("重庆重庆", "", (0, 0, 4, 4), (0, 0, 0, 0)),
        ("重 庆", "重庆", (0, 0, 0, 2), (0, 0, 0, 0)),
    ],
)
def test_errors_inside_and_outside_of_hotwords(reference, hypothesis, biased, unbiased):
    assert counts(reference, hypothesis) == [biased, unbiased]


def test_hotwords_match_syllables_if_tokens_are_syllables():
    measure = utterances.TOKEN_ERROR_RATE
    assert counts("wo3 chong2 qing4", "wo2 chong2 qing2", measure=measure) == [(1, 0, 0, 2), (1, 0, 0, 1)]
    assert counts("wo chong qing", "wo chong qin", measure=measure) == [(1, 0, 0, 2), (0, 0, 0, 1)]


def test_a_hotword_that_is_not_in_the_references_has_no_rate():
    scored = [utterances.score(utterances.CHARACTER_ERROR_RATE, "u", "s", "你好", "你号")]
    rates = biasing.measure(HOTWORDS, utterances.CHARACTER_ERROR_RATE, scored)
    assert rates["biased_error_rate"].rate is None
    assert rates["unbiased_error_rate"].rate == 0.5


def test_overlapping_phrases_are_marked_together():
    assert biasing.mark(biasing.index(["ab", "bcd"]), "xabcdab") == [False] + [True] * 6
    assert biasing.mark(biasing.index([("ni3", "hao3")]), ("hao3", "ni3", "hao3")) == [False, True, True]


def test_biased_and_unbiased_errors_add_up_in_the_metrics():
    scored = [
        utterances.score(utterances.CHARACTER_ERROR_RATE, f"u{i}", "s", "我在重庆", hypothesis)
        for i, hypothesis in enumerate(["我在重新庆", "我再重", "重庆重庆"])
    ]
    split = scored_split.ScoredSplit({}, {utterances.CHARACTER_ERROR_RATE: scored}, hotwords=HOTWORDS)
    values = scored_split.measure(split)
    parts = [values[name] for name in ("biased_error_rate", "unbiased_error_rate")]
    for key in ("errors", "substitutions", "insertions", "deletions", "reference_length"):
        assert sum(part[key] for part in parts) == values["character_error_rate"][key]
    assert "biased_error_rate" not in scored_split.measure(scored_split.ScoredSplit({}, split.measures))
