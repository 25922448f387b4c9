"""Tests the comparison of marks in two texts, which uses an alignment of the characters."""

import numpy as np
import pytest

from estimator_asr.scoring import punctuation_scores
from tfrecord_builder.data import marks


def _confusions(reference, hypothesis):
    """Returns {(reference mark, hypothesis mark): count}, except where neither text has a mark."""
    counts = punctuation_scores.score(reference, hypothesis).confusions
    places = zip(*np.nonzero(counts))
    return {(marks.MARKS[i], marks.MARKS[j]): counts[i, j] for i, j in places if i or j}


@pytest.mark.parametrize(
    "reference, hypothesis, want",
    [
        ("你好，世界。", "你好，世界。", {("，", "，"): 1, ("。", "。"): 1}),
        ("你好，世界。", "你好世界，", {("，", ""): 1, ("。", "，"): 1}),
        ("你好，世界。", "您好，界。", {("，", "，"): 1, ("。", "。"): 1}),  # 您 for 你, 世 deleted
        ("你好啊，世界。", "你好，世界。", {("，", "，"): 1, ("。", "。"): 1}),  # the deleted 啊 had the mark
        ("你好，世界。", "你好啊，世界。", {("，", "，"): 1, ("。", "。"): 1}),  # inserted 啊 with the mark
        ("你，好。", "", {("。", ""): 1}),
        ("", "你，好？", {("", "？"): 1}),
        ("", "", {}),
    ],
)
def test_marks_meet_at_paired_characters(reference, hypothesis, want):
    assert _confusions(reference, hypothesis) == want


@pytest.mark.parametrize(
    "reference, hypothesis, want",
    [
        ("是的。我来", "是的。我来", [1, 1, 1]),
        ("是的。我来", "是的我？来", [1, 1, 1]),  # one character later, and another mark
        ("是的。我来", "是的我来。", [1, 1, 0]),
        ("是。的。我来", "是的。我来", [1, 2, 1]),
        ("是的，我来", "是的。我来", [1, 0, 0]),
    ],
)
def test_sentence_ends_may_be_off_by_one_character(reference, hypothesis, want):
    assert punctuation_scores.score(reference, hypothesis).ends.tolist() == want


def test_rates_are_those_of_a_calculation_by_hand():
    texts = [("你好，世界。", "你好，世界，"), ("是吗？", "是吗？"), ("好！", "好。")]
    counts = [punctuation_scores.score(*pair) for pair in texts]
    rates = punctuation_scores.measure(counts, [reference for reference, _ in texts])
    three = rates["commas_stops_questions"]
    # Found: 2 commas, a question mark, a stop. Expected: 1 each. Right: a comma and the question mark.
    assert (three.num_found, three.num_expected, three.num_right) == (4, 3, 2)
    assert (three.precision, three.recall) == (2 / 4, 2 / 3)
    assert three.f1 == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))
    for name, rate in (("precision", 2 / 4), ("recall", 2 / 3), ("confidence", three.f1)):
        low, high = getattr(three, f"{name}_interval")
        assert 0 <= low < rate < high <= 1
    assert three.precision_interval != three.recall_interval
    assert (rates["，"].precision, rates["，"].recall, rates["？"].f1) == (0.5, 1.0, 1.0)
    assert rates["、"].f1 is None and rates["、"].confidence_interval is None
    assert rates["！"].precision is rates["！"].precision_interval is None  # expected, but not found
    assert rates["！"].recall_interval is not None
    assert rates["all_marks"].num_expected == 4
    assert (rates["sentence_ends"].num_found, rates["sentence_ends"].num_expected) == (2, 3)


def test_equal_texts_are_resampled_together():
    pair = ("是吗？好。", "是吗？好，")
    rates = punctuation_scores.measure([punctuation_scores.score(*pair)] * 9, [pair[0]] * 9)
    assert rates["commas_stops_questions"].confidence_interval is None  # only one text to resample
