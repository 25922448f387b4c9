"""Limits of hotwords; one of 60,000 letters made the graph take 14 GB."""

from __future__ import annotations

import pytest

from estimator_asr.server import api_errors, hotword_limits


@pytest.mark.parametrize(
    "hotwords, problem",
    [
        (["a"] * 1001, "there are 1001, expected at most 1000"),
        (["a", "x" * 60000], "one has 60000 characters with its pinyin, expected at most 400"),
        (["x" * 400] * 101, "they have 40400 characters with their pinyin, expected at most 40000"),
    ],
)
def test_too_many_or_too_long(hotwords, problem):
    with pytest.raises(api_errors.ApiError) as caught:
        hotword_limits.check(hotwords)
    assert (caught.value.status, str(caught.value)) == (400, f"hotwords: {problem}; send fewer")


@pytest.mark.parametrize("hotwords", [[], ["x" * 400] * 100, ["神雕侠侣 shen2 diao1 xia2 lv3"] * 1000])
def test_as_many_as_allowed(hotwords):
    hotword_limits.check(hotwords)


def test_texts_are_measured_before_they_are_split():
    hotword_limits.check_texts(["," * 40_000, "x" * 40_000])
    said = "hotwords: they have 80001 characters with their separators, expected at most 80000; send fewer"
    with pytest.raises(api_errors.ApiError, match=said):
        hotword_limits.check_texts(["," * 40_001, "x" * 40_000])
