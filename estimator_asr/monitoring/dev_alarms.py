"""When figures on dev look broken: rules as in alarms, over the evaluations so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Optional

from estimator_asr.monitoring import readings

# With masks and dropout training makes more errors than without, so these few mean that it knows.
TRAIN_ERROR_RATE = 0.2
# Between speakers of one corpus less than this is lost.
ERROR_RATE_GAP = 0.3
IN_A_ROW = 2
# Tokens of all hypotheses over those of all references.
WRITES_NOTHING = 0.01


def decoding_gap(evaluations: Sequence[readings.Evaluation], context: readings.Context) -> Optional[str]:
    """The decoder knows the next token if it is told all before, but what is decoded is wrong."""
    late = [item.dev for item in evaluations if item.step > context.late_step][-IN_A_ROW:]
    pairs = [(dev.get("teacher-forced-error-rate", 1.0), dev.get(context.error_rate, 0.0)) for dev in late]
    if not _all(pairs, lambda forced, decoded: decoded >= max(2 * forced, forced + ERROR_RATE_GAP)):
        return None
    forced, decoded = pairs[-1]
    return (
        f"on dev {100 * decoded:.0f} % of the decoded tokens are wrong, but {100 * forced:.0f} % where the "
        "decoder is told those before; likely it has learned the texts, and the CTC head not the audio; "
        f"train a new one with more weight on CTC: {context.new_model_command('ctc0.9', '--ctc_weight=0.9')}"
    )


def dev_gap(evaluations: Sequence[readings.Evaluation], context: readings.Context) -> Optional[str]:
    """Few errors in training, many on dev."""
    settled = [item for item in evaluations if item.step > context.settled_step][-IN_A_ROW:]
    tag = context.error_rate
    pairs = [(item.train.get(tag, 1.0), item.dev.get(tag, 0.0)) for item in settled]
    if not _all(pairs, lambda train, dev: train <= TRAIN_ERROR_RATE and dev >= train + ERROR_RATE_GAP):
        return None
    train, dev = pairs[-1]
    return (
        f"{100 * train:.0f} % errors in training, {100 * dev:.0f} % on dev; likely the training split is "
        "known by heart, or dev was recorded or written differently; look for speakers and sentences that "
        f"stand out: {context.evaluate_command}"
    )


def nan_loss(evaluations: Sequence[readings.Evaluation], context: readings.Context) -> Optional[str]:
    """A loss on dev that is NaN, even once."""
    dev = evaluations[-1].dev
    tags = [tag for tag, value in sorted(dev.items()) if tag.endswith("loss") and math.isnan(value)]
    if not tags:
        return None
    return (
        f"{', '.join(tags)} on dev: NaN, so this checkpoint is never one of the best; likely features of dev "
        f"are NaN or Inf, or the weights are; check the data: {context.verify_command}"
    )


def nothing_written(evaluations: Sequence[readings.Evaluation], context: readings.Context) -> Optional[str]:
    """Empty hypotheses for all of dev, when a healthy model has long begun to write."""
    last = evaluations[-1]
    if last.step <= context.settled_step or last.dev.get("length-ratio", 1.0) > WRITES_NOTHING:
        return None
    return (
        f"on dev the model writes {100 * last.dev['length-ratio']:.0f} % as many tokens as the references "
        "have, so hypotheses are empty; likely the learning rate is far off, or labels do not belong to the "
        f"audio; see whether one batch can be learned: {context.overfit_command}"
    )


RULES: dict[str, Callable] = {
    "dev-nan": nan_loss,
    "dev-nothing-written": nothing_written,
    "decoding-gap": decoding_gap,
    "dev-gap": dev_gap,
}


def _all(pairs, is_bad):
    return len(pairs) == IN_A_ROW and all(is_bad(*pair) for pair in pairs)
