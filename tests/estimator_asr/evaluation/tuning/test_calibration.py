"""Tests fitted confidences with known odds, and the calibration error with values computed by hand."""

import numpy as np
import pytest

from estimator_asr.evaluation.tuning import calibration, trials


def draw(scale, offset, count=200_000):
    """Returns random confidences; their true log odds are scale x their log odds + offset."""
    rng = np.random.default_rng(1)
    log_odds = rng.normal(1.0, 2.0, count)
    confidences, truth = (1 / (1 + np.exp(-odds)) for odds in (log_odds, scale * log_odds + offset))
    return calibration.Judged(confidences, rng.uniform(size=count) < truth)


@pytest.mark.long
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (0.5, -1.0), (2.0, 0.5)])
def test_fit_finds_the_scale_and_offset_of_simulated_confidences(scale, offset):
    judged = draw(scale, offset)
    assert calibration.fit(judged) == pytest.approx((scale, offset), abs=0.03)
    fitted = calibration.apply(judged, *calibration.fit(judged))
    assert calibration.calibration_error(fitted) < 0.005


def test_the_calibration_error_equals_a_value_computed_by_hand():
    """One of two characters at 0.95 is right, so the sum is off by 0.9; none of two at 0.15: off by 0.3."""
    judged = calibration.Judged(np.array([0.95, 0.95, 0.15, 0.15]), np.array([True, False, False, False]))
    assert calibration.calibration_error(judged) == pytest.approx((0.9 + 0.3) / 4)


def test_each_half_is_fitted_on_the_other():
    """All characters in one half are right, and all in the other half are wrong, so each half misleads."""
    halves = [calibration.Judged(np.full(50, 0.9), np.full(50, is_right)) for is_right in (True, False)]
    fitted = calibration.fit_crosswise(halves)
    assert fitted.is_right.tolist() == [True] * 50 + [False] * 50
    assert calibration.calibration_error(fitted) > 0.9
    own = calibration.join([calibration.apply(half, *calibration.fit(half)) for half in halves])
    assert calibration.calibration_error(own) < 0.1


def test_confidences_stay_finite_if_all_characters_are_right():
    scale, offset = calibration.fit(calibration.Judged(np.full(30, 0.9), np.full(30, True)))
    assert np.isfinite([scale, offset]).all() and scale > 0


def test_without_characters_confidences_are_unchanged():
    judged = calibration.Judged(np.zeros(0), np.zeros(0, bool))
    assert calibration.fit(judged) == (1.0, 0.0)
    assert calibration.calibration_error(judged) == 0.0


def make(reference, hypothesis, confidences, pinyin=""):
    characters = [{"character": one, "confidence": value} for one, value in zip(hypothesis, confidences)]
    found = {"transcript": "".join(hypothesis), "pinyin": pinyin, "characters": characters}
    return trials.Transcribed("", reference, found)


def test_characters_are_right_if_the_alignment_says_equal():
    """Inserted and substituted characters are wrong; deleted characters have no confidence."""
    judged = calibration.judge(
        [make("今天天气好", "今天气好吗", [0.9, 0.8, 0.7, 0.2, 0.6]), make("你好", "您好", [0.1, 0.5])],
        has_language=True,
    )
    assert judged.is_right.tolist() == [True, True, True, True, False, False, True]
    assert judged.confidences.tolist() == [0.9, 0.8, 0.7, 0.2, 0.6, 0.1, 0.5]


@pytest.mark.parametrize(
    ("pronunciation", "tokens", "transcript"),
    [
        ("ni3 hao3", ["ni3", "hao4"], "ni3 hao4"),
        ("n i3 h ao3", ["n", "i3", "h", "uo3"], "ni3 huo3"),  # initials and finals
        ("▁the ▁cat s", ["▁the", "▁cat", "z"], "the catz"),  # subwords
        ("a <space> b", ["a", "<space>", "d"], "a d"),
        ("好", ["号"], "号"),
    ],
)
def test_without_a_language_model_tokens_are_compared(pronunciation, tokens, transcript):
    items = [{"character": each, "pinyin": each, "confidence": 0.5} for each in tokens]
    found = {"transcript": transcript, "pinyin": " ".join(tokens), "characters": items}
    judged = calibration.judge([trials.Transcribed(pronunciation, "", found)], has_language=False)
    assert judged.is_right.tolist() == [True] * (len(tokens) - 1) + [False]


def test_inverted_confidences_become_the_overall_accuracy():
    """At 0.9 no character is right, and at 0.1 all are: no scale above 0 fits, and half of all are right."""
    judged = calibration.Judged(np.repeat([0.9, 0.1], 50), np.repeat([False, True], 50))
    fitted = calibration.apply(judged, *calibration.fit(judged))
    np.testing.assert_allclose(fitted.confidences, 0.5, atol=0.01)
