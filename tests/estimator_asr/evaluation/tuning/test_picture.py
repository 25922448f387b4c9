"""Tests that the bars in the picture of tune show the values of the steps and of the bins."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from estimator_asr.evaluation.tuning import calibration, picture, search
from estimator_asr.experiment import config
from estimator_asr.scoring import utterances

TOKENS, CHARACTERS = utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE
JUDGED = calibration.Judged(np.array([0.95, 0.95, 0.45, 0.45]), np.array([True, False, False, False]))
RESULT = search.TuningResult(
    [
        search.DecodingStep("greedy", config.DecodeConfig(), {TOKENS: 30, CHARACTERS: 50}),
        search.DecodingStep("n-gram model", config.DecodeConfig(), {TOKENS: 20, CHARACTERS: 25}),
    ],
    {TOKENS: 100, CHARACTERS: 200},
    JUDGED,
    JUDGED._replace(confidences=np.array([0.5, 0.5, 0.2, 0.0])),
)


def test_bars_are_error_rates_in_percent():
    figure, axes = plt.subplots()
    picture.draw_steps(axes, RESULT)
    assert [bar.get_width() for bar in axes.patches] == [30, 20, 25, 12.5]
    # From top to bottom: tokens and characters of one step touch, and a gap follows.
    edges = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches)
    assert edges[0][1] == pytest.approx(edges[1][0]) and edges[1][1] < edges[2][0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["greedy", "n-gram model"]
    assert [text.get_text() for text in axes.texts] == ["30.0 %", "20.0 %", "25.0 %", "12.5 %"]
    plt.close(figure)


def test_bars_compare_expected_with_measured_errors():
    figure, axes = plt.subplots()
    picture.draw_confidences(axes, RESULT)
    assert [round(bar.get_height(), 9) for bar in axes.patches] == [1.8, 1, 2, 1]
    assert [text.get_text() for text in axes.texts] == ["2", "1", "2", "1"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["< 0.5\n2", "0.5–0.8\n2"]
    title = axes.get_legend().get_title().get_text()
    assert title == "calibration error: 45.0 %; when fitted on the other half, 5.0 %"
    plt.close(figure)


def test_a_picture_with_and_without_confidences(tmp_path):
    without = RESULT._replace(uncalibrated=None, fitted=None)
    for name, result, width in (("both", RESULT, 1320), ("one", without, 720)):
        picture.draw(result, str(tmp_path / name))
        assert plt.imread(tmp_path / name, format="png").shape[:2] == (432, width)
