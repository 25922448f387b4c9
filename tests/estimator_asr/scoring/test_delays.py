"""Tests the emission delay: the time from the end of a syllable until its token no longer changes."""

import pytest

from estimator_asr.scoring import delays

WHOLE = [{"pinyin": "ni3", "end": 0.2}, {"pinyin": "hao3", "end": 0.5}, {"pinyin": "ma5", "end": 0.7}]


def test_a_delay_ends_when_a_token_and_all_tokens_before_it_are_final():
    partials = [[], ["ni3"], ["ni2", "hao3"], ["ni3", "hao3"], ["ni3", "hao3", "ma5"]]
    found = delays.measure(partials, [0.3, 0.6, 0.9, 1.2, 1.4], WHOLE)
    assert found == pytest.approx([1.2 - 0.2, 1.2 - 0.5, 1.4 - 0.7])


def test_tokens_missing_from_the_whole_transcript_are_ignored():
    partials = [["ni3", "hao2"], ["ni3", "hao2", "ma5"]]
    assert delays.measure(partials, [0.5, 1.0], WHOLE) == pytest.approx([0.3, 0.3])
    assert delays.measure([[], ["shi4"]], [0.5, 1.0], WHOLE) == []
    assert delays.measure([[]], [0.5], []) == []


def test_summary():
    expected = {"tokens": 101, "p50": 5.0, "p90": 9.0, "p99": 9.9}
    assert delays.summarise([0.1 * i for i in range(101)]) == expected
    assert delays.summarise([]) == {"tokens": 0, "p50": 0, "p90": 0, "p99": 0}
