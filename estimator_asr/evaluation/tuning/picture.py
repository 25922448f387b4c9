"""Draws the result of tune: the error rate after each step, and a reliability diagram of the confidences."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")  # needs no display

import matplotlib.pyplot as plt
import numpy as np

from estimator_asr.evaluation.tuning import calibration, search
from estimator_asr.scoring import utterances

_DPI = 120
LABELS = {utterances.TOKEN_ERROR_RATE: "tokens", utterances.CHARACTER_ERROR_RATE: "characters"}
_BAR = 0.38  # height of a bar; a step has at most two bars


def draw(result: search.TuningResult, path: str) -> None:
    """Writes the picture to `path` as a PNG file."""
    has_confidences = result.uncalibrated is not None
    with plt.rc_context({"font.size": 9}):
        size = (6 + 4 * has_confidences, 3.6)
        figure, axes = plt.subplots(1, 1 + has_confidences, figsize=size, layout="constrained", squeeze=False)
        _draw_steps(axes[0, 0], result)
        if has_confidences:
            _draw_confidences(axes[0, 1], result)
        figure.savefig(path, dpi=_DPI, format="png", metadata={"Software": None})
        plt.close(figure)


def _draw_steps(axes, result: search.TuningResult) -> None:
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


def _draw_confidences(axes, result: search.TuningResult) -> None:
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    for name, characters in (("before", result.uncalibrated), ("fitted on the other half", result.fitted)):
        bins, error = calibration.sort_into_bins(characters), calibration.calibration_error(characters)
        (line,) = axes.plot(bins.confidence, bins.accuracy, label=f"{name}: error {100 * error:.1f} %")
        sizes = 5 + 400 * bins.counts / max(np.sum(bins.counts), 1)
        axes.scatter(bins.confidence, bins.accuracy, sizes, color=line.get_color(), alpha=0.6)
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="confidence (dot area: number)", ylabel="fraction that is right"
    )
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
