"""Draws the result of tune: error rates after each step, and wrong characters per confidence range."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")  # draws to files, without a display

import matplotlib.pyplot as plt
import numpy as np

from estimator_asr.evaluation.tuning import calibration, search
from estimator_asr.scoring import utterances

_DPI = 120
LABELS = {utterances.TOKEN_ERROR_RATE: "tokens", utterances.CHARACTER_ERROR_RATE: "characters"}
_BAR = 0.38  # thickness of a bar; neighbouring pairs of bars are 1 apart
_CONFIDENCES = np.array([0.5, 0.8, 0.9, 0.95, 0.99])  # boundaries between confidence ranges


def draw(result: search.TuningResult, path: str) -> None:
    """Writes the picture to `path` as a PNG file."""
    has_confidences = result.uncalibrated is not None
    with plt.rc_context({"font.size": 9}):
        size = (6 + 5 * has_confidences, 3.6)
        figure, axes = plt.subplots(1, 1 + has_confidences, figsize=size, layout="constrained", squeeze=False)
        draw_steps(axes[0, 0], result)
        if has_confidences:
            draw_confidences(axes[0, 1], result)
        figure.savefig(path, dpi=_DPI, format="png", metadata={"Software": None})
        plt.close(figure)


def draw_steps(axes, result: search.TuningResult) -> None:
    """Draws a bar for each step and measure, showing the error rate in percent."""
    places = np.arange(len(result.steps))
    for i, (measure, count) in enumerate(result.num_labels.items()):
        rates = [100 * step.errors[measure] / max(count, 1) for step in result.steps]
        bars = axes.barh(places + i * _BAR, rates, _BAR, label=f"{count:,} {LABELS[measure]}")
        axes.bar_label(bars, fmt="%.1f %%", padding=3)
    axes.set_yticks(places + _BAR * (len(result.num_labels) - 1) / 2, [step.name for step in result.steps])
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel("error rate on the utterances used for tuning, %")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def draw_confidences(axes, result: search.TuningResult) -> None:
    """Draws two bars per confidence range: the expected and the measured number of wrong characters.

    The confidences of each half of the utterances were calibrated on the other half. Ranges without
    characters are left out.
    """
    bins = calibration.sort_into_bins(result.fitted, _CONFIDENCES)
    used = np.flatnonzero(bins.counts)
    places, counts = np.arange(len(used)), bins.counts[used]
    sides = {"expected from the confidence": bins.confidence, "measured": bins.accuracy}
    for i, (name, right) in enumerate(sides.items()):
        bars = axes.bar(places + i * _BAR, counts * (1 - right[used]), _BAR, label=name)
        axes.bar_label(bars, fmt="%.0f", padding=2)
    limits = [f"{limit:g}" for limit in _CONFIDENCES]
    names = [f"< {limits[0]}", *map("{}–{}".format, limits, limits[1:]), f"> {limits[-1]}"]
    axes.set_xticks(places + _BAR / 2, [f"{names[i]}\n{bins.counts[i]:,}" for i in used])
    axes.margins(y=0.1)
    unit = LABELS[list(result.num_labels)[-1]]
    axes.set(xlabel=f"range of confidence, and number of {unit} in it", ylabel=f"wrong {unit}")
    before, after = map(calibration.calibration_error, (result.uncalibrated, result.fitted))
    title = f"calibration error: {100 * before:.1f} %; when fitted on the other half, {100 * after:.1f} %"
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, title=title)
