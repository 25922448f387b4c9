"""Ends a training in order: after SIGTERM, or when the error rate on dev no longer improves."""

from __future__ import annotations

import dataclasses
import math
import signal
from collections.abc import Sequence
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api
from estimator_asr.checkpointing import evaluation_log
from estimator_asr.training import step_time


class Terminated(Exception):
    """SIGTERM came; the last checkpoint is on disk."""


class Termination:
    """SIGTERM during training: the step ends, a checkpoint is saved, and nothing is evaluated any more."""

    def __init__(self):
        self.is_requested = False

    def __enter__(self):
        self._previous = signal.signal(signal.SIGTERM, self._request)
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGTERM, self._previous)

    def raise_if_requested(self) -> None:
        """Raises Terminated after SIGTERM."""
        if self.is_requested:
            raise Terminated

    def _request(self, signum, frame):
        self.is_requested = True


@dataclasses.dataclass(eq=False)
class StopTrainingHook(estimator_api.SessionRunHook):
    """Ends training after the step in which SIGTERM came; the saver hook then saves."""

    termination: Termination

    def after_run(self, run_context, run_values):
        if self.termination.is_requested:
            run_context.request_stop()


@dataclasses.dataclass(eq=False)
class StopEvaluationHook(estimator_api.SessionRunHook):
    """Leaves an evaluation at once after SIGTERM: its checkpoint is already saved."""

    termination: Termination

    def after_run(self, run_context, run_values):
        self.termination.raise_if_requested()


@dataclasses.dataclass(eq=False)
class CheckpointListener(estimator_api.CheckpointSaverListener):
    """Runs before the evaluation of a checkpoint: stops the clock, and skips the evaluation after SIGTERM."""

    termination: Termination
    clock: step_time.Clock

    def before_save(self, session, global_step_value):
        self.clock.pause()

    def after_save(self, session, global_step_value):
        self.termination.raise_if_requested()

    def end(self, session, global_step_value):
        self.termination.raise_if_requested()


@dataclasses.dataclass(frozen=True)
class StopRule:
    """Decides when a training ends: at its last step, or when the error rate on dev no longer improves.

    Attributes:
        history: evaluations on dev.
        patience: evaluations without a new lowest error rate; 0: no early stopping.
        max_steps: global step at which training ends.
    """

    history: evaluation_log.History
    patience: int
    max_steps: int

    def find_reason(self, step: int) -> Optional[str]:
        """Returns why a training does not continue at a global step, as a clause of a sentence; or None."""
        if step >= self.max_steps:
            return f"already at step {step} of {self.max_steps}"
        reason = self.find_early_stop(step)
        return f"stopped early at step {step}, {reason}" if reason else None

    def find_early_stop(self, step: int) -> Optional[str]:
        """Returns the reason for early stopping at a global step, as a clause of a sentence; or None."""
        known = self.history.known_at(step) if self.patience else []
        if not self.patience or count_since_lowest([error_rate for _, error_rate in known]) < self.patience:
            return None
        lowest = _describe_lowest(known)
        return f"no new lowest error rate on dev in {self.patience} evaluations ({lowest})"


def count_since_lowest(error_rates: Sequence[float]) -> int:
    """Returns the number of evaluations after the first one with the lowest rate; NaN is never the lowest.

    Args:
        error_rates: oldest first.
    """
    lowest, count = math.inf, 0
    for error_rate in error_rates:
        lowest, count = (error_rate, 0) if error_rate < lowest else (lowest, count + 1)
    return count


def _describe_lowest(known):
    rates = [(error_rate, step) for step, error_rate in known if not math.isnan(error_rate)]
    return "the lowest was {:.4f} at step {}".format(*min(rates)) if rates else "all of them are NaN"


@dataclasses.dataclass(eq=False)
class EarlyStoppingHook(estimator_api.SessionRunHook):
    """Ends training early; the checkpoint of the last step is saved and evaluated.

    It must run after the saver hook, as the hooks of a training step do: then the evaluation of a checkpoint
    ends training before the next step.

    Attributes:
        number: int64 [], global step before the update.
        rule: when training ends.
    """

    number: tf.Tensor
    rule: StopRule

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self.number)

    def after_run(self, run_context, run_values):
        step = int(run_values.results) + 1
        reason = self.rule.find_early_stop(step)
        if reason:
            logging.info("training ends at step %d: %s", step, reason)
            run_context.request_stop()
