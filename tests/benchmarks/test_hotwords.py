"""The benchmark of hotwords: its words, and what it counts."""

from __future__ import annotations

import pytest

from benchmarks import hotwords


def test_rare_words_of_the_speech_and_words_that_it_lacks():
    references = ["我们讨论这个问题", "我们讨论经济"]
    text = ["我们讨论天气", "讨论问题", "我们经济问题", "天气预报"]
    words, others = hotwords.choose(references, text, 2, seed=1)
    assert words[:1] == ["这个"]
    assert set(words) <= {"这个", "经济"}
    assert set(others) == {"天气", "天气预报", "预报"} & set(others)
    assert "天气" in others


@pytest.mark.parametrize(
    ("reference", "transcript", "expected"),
    [
        ("我在重庆", "我在重庆", (1, 1, 1, 0, 2)),
        ("我在重庆", "我在从轻", (0, 1, 0, 0, 2)),
        ("我在重庆", "他在重新庆", (0, 1, 0, 1, 2)),
        ("我在这里", "我在重庆", (0, 0, 1, 2, 4)),
        ("重庆重庆好", "重庆好", (1, 2, 1, 0, 1)),
        ("我在重庆", "", (0, 1, 0, 2, 2)),
    ],
)
def test_counts_by_hand(reference, transcript, expected):
    assert hotwords.count(["重庆", "北京"], [reference], [transcript]) == expected


def test_bars(capsys):
    counts = {
        "without": hotwords.Counts(80, 100, 80, 10, 1000),
        "with": hotwords.Counts(95, 100, 96, 12, 1000),
        1000: hotwords.Counts(94, 100, 96, 12, 1000),
    }
    hotwords.show(counts)
    assert capsys.readouterr().out.splitlines()[2].split()[:5] == ["with", "95.0%", "100", "99.0%", "96"]
    found = hotwords.make_bars(counts, {"without": [2.0, 2.0], "1000": [2.1, 2.1]})
    assert [round(bar.value, 4) for bar in found] == [0.95, 0.9896, 0.2, 1.05]
    assert [bar.is_met for bar in found] == [True, False, False, True]
