"""Error rates in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from estimator_asr.scoring import error_rate


def format_name(measure: str) -> str:
    """Returns the name of a measure for people."""
    return measure.replace("_", " ")


def describe_speakers(values: Mapping) -> str:
    """Returns the number of speakers in metrics.json, or a sentence about unknown ones."""
    unknown = values["num_utterances_of_unknown_speakers"]
    if not unknown:
        return str(values["num_speakers"])
    return (
        f"speaker unknown: {unknown} of {values['num_utterances']} utterances, each counted as a speaker of "
        "its own; if a few speakers spoke them all, the intervals are too narrow"
    )


def format_rate(rate: Mapping) -> str:
    """Returns an error rate of metrics.json for people: `1.25 % (95 % interval 0.80 to 1.90 %)`."""
    text = format_percent(rate["rate"])
    if rate["confidence_interval"] is not None:
        low, high = rate["confidence_interval"]
        text += f" ({100 * error_rate.CONFIDENCE:.0f} % interval {100 * low:.2f} to {100 * high:.2f} %)"
    return text


def format_percent(fraction: Optional[float]) -> str:
    """Returns a fraction as a percentage, `no reference` for None."""
    return "no reference" if fraction is None else f"{100 * fraction:.2f} %"
