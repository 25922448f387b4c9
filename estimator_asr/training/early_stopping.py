"""Early stopping: training ends when the error rate on dev has stood still for long enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api
from estimator_asr.checkpointing import evaluation_log


def count_since_lowest(error_rates: Sequence[float]) -> int:
    """Returns how many evaluations came after the first one with the lowest rate; NaN is never the lowest.

    Args:
        error_rates: oldest first.
    """
    lowest, count = math.inf, 0
    for error_rate in error_rates:
        lowest, count = (error_rate, 0) if error_rate < lowest else (lowest, count + 1)
    return count


def find_reason(history: evaluation_log.History, patience: int, step: int) -> Optional[str]:
    """Returns why training is over at a step, as a clause for people; None if it is not.

    Args:
        history: of the model directory.
        patience: evaluations without a new lowest error rate; 0 never ends training.
        step: steps made.
    """
    known = history.known_at(step)
    if not patience or count_since_lowest([error_rate for _, error_rate in known]) < patience:
        return None
    return f"no new lowest error rate on dev in {patience} evaluations ({_describe_lowest(known)})"


def _describe_lowest(known):
    rates = [(error_rate, step) for step, error_rate in known if not math.isnan(error_rate)]
    return "the lowest was {:.4f} at step {}".format(*min(rates)) if rates else "none gave a number"


class EarlyStoppingHook(estimator_api.SessionRunHook):
    """Ends training in order: the checkpoint of the last step is saved and evaluated.

    It must run after the hook that saves, as hooks of the training step do; then the evaluation of a
    checkpoint ends training before the next step. The same step is the last one in every process.
    """

    def __init__(self, number: tf.Tensor, history: evaluation_log.History, patience: int):
        """Takes what it counts.

        Args:
            number: int64 [], steps made before this one.
            history: of the model directory.
            patience: at least 1.
        """
        self._number = number
        self._history = history
        self._patience = patience

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self._number)

    def after_run(self, run_context, run_values):
        step = int(run_values.results) + 1
        reason = find_reason(self._history, self._patience, step)
        if reason:
            logging.info("training ends at step %d: %s", step, reason)
            run_context.request_stop()
