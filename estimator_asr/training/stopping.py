"""Stops training after SIGTERM or when dev no longer improves; the workers of a cluster stop together."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import estimator_api
from estimator_asr.training.checkpointing import evaluation_log
from tfrecord_builder import errors


class Terminated(Exception):
    """Training ended because of SIGTERM; its last checkpoint has been saved."""


class Termination:
    """Response to SIGTERM during training: the step ends, a checkpoint is saved, and nothing is evaluated."""

    def __init__(self):
        self.is_requested = False
        self._received = None

    def __enter__(self):
        self._previous = signal.signal(signal.SIGTERM, self._request)
        # Signal handlers wait while TensorFlow blocks the main thread; the socket gets each signal at once.
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._previous_descriptor = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_):
        signal.set_wakeup_fd(self._previous_descriptor)
        signal.signal(signal.SIGTERM, self._previous)
        self._reader.close()
        self._writer.close()

    def received_before(self, seconds: float) -> int:
        """Returns SIGTERM or SIGINT if it arrived at least `seconds` ago, else 0; works in any thread."""
        with contextlib.suppress(OSError):  # no signal has arrived, or training has ended
            stops = [number for number in self._reader.recv(64) if number in (signal.SIGTERM, signal.SIGINT)]
            if stops and self._received is None:
                self._received = stops[0], time.monotonic()
        number, received = self._received or (0, math.inf)
        return number if time.monotonic() - received >= seconds else 0

    def raise_if_requested(self) -> None:
        if self.is_requested:
            raise Terminated

    def _request(self, signum, frame):
        self.is_requested = True


@dataclasses.dataclass(eq=False)
class StopEvaluationHook(estimator_api.SessionRunHook):
    """A hook that aborts an evaluation after SIGTERM; nothing is lost, as the checkpoint is already saved."""

    termination: Termination

    def after_run(self, run_context, run_values):
        self.termination.raise_if_requested()


@dataclasses.dataclass(eq=False)
class CheckpointListener(estimator_api.CheckpointSaverListener):
    """A listener that, after SIGTERM, prevents the evaluation that normally follows a checkpoint."""

    termination: Termination
    pause: Callable[[], None]  # called before a checkpoint is saved and evaluated

    def before_save(self, session, global_step_value):
        self.pause()

    def after_save(self, session, global_step_value):
        self.termination.raise_if_requested()

    def end(self, session, global_step_value):
        self.termination.raise_if_requested()


@dataclasses.dataclass(frozen=True)
class StopRule:
    """The rule that decides when training ends."""

    history: evaluation_log.History  # evaluations on dev
    patience: int  # number of evaluations without a new lowest error rate; 0 disables early stopping
    max_steps: int  # last global step

    def find_reason(self, step: int) -> Optional[str]:
        """Returns why training ends at a step (a clause for "training ..."), or None if it continues."""
        if step >= self.max_steps:
            return f"is already at step {step} of {self.max_steps}"
        reason = self.find_early_stop(step)
        return f"stopped early at step {step}, {reason}" if reason else None

    def find_early_stop(self, step: int) -> Optional[str]:
        """Returns the reason to stop early at a global step, or None if training continues."""
        rates = self.history.known_at(step) if self.patience else []
        if not self.patience or count_since_lowest([error_rate for _, error_rate in rates]) < self.patience:
            return None
        finite = [(error_rate, step) for step, error_rate in rates if not math.isnan(error_rate)]
        lowest = "the lowest was {:.4f} at step {}".format(*min(finite)) if finite else "all of them are NaN"
        return f"no new lowest error rate on dev in {self.patience} evaluations ({lowest})"


def count_since_lowest(error_rates: Sequence[float]) -> int:
    """Returns how many rates (oldest first) follow the first of the lowest ones; NaN is never the lowest."""
    lowest, count = math.inf, 0
    for error_rate in error_rates:
        lowest, count = (error_rate, 0) if error_rate < lowest else (lowest, count + 1)
    return count


@dataclasses.dataclass(eq=False)
class StopHook(estimator_api.SessionRunHook):
    """A hook that ends training after a step if SIGTERM arrived or a StopRule says so.

    The saver hook saves a checkpoint of that step. StopHook must run after the saver hook, as all hooks in
    EstimatorSpec.training_hooks do, so that an evaluation can end training before the next step.
    """

    number: tf.Tensor  # int64 [], global step before the update
    rule: StopRule
    termination: Termination

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self.number)

    def after_run(self, run_context, run_values):
        step = int(run_values.results) + 1
        reason = self.rule.find_early_stop(step)
        if reason:
            logging.info("training ends at step %d: %s", step, reason)
        if reason or self.termination.is_requested:
            run_context.request_stop()


def _sum_over_workers(tensor):
    reduce = tf.distribute.get_strategy().extended.reduce_to
    return reduce(tf.distribute.ReduceOp.SUM, tensor, tensor)


@dataclasses.dataclass(eq=False)
class CoordinatedStopHook(estimator_api.SessionRunHook):
    """A hook that stops all workers after the same step if one of them received SIGTERM or must stop early.

    If only one worker stopped, the others would wait for it forever, so each step sums the stop requests of
    all workers. Every worker needs this hook, at the same position in its list of hooks. In the first step,
    the hook also checks that all workers started from the same checkpoint.
    """

    termination: Termination  # requested on all workers as soon as one of them receives SIGTERM
    num_workers: int
    should_stop: Callable[[int], object]  # maps the global step to a true value if training must stop
    add_up: Callable[[tf.Tensor], tf.Tensor] = _sum_over_workers

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()
        self._own = tf.compat.v1.placeholder_with_default(tf.zeros([3], tf.int64), [3], "stop_requests")
        self._sums = self.add_up(self._own)

    def after_create_session(self, session, coord):
        self._is_first = True
        self._first_step = self._step = int(session.run(self._global_step))

    def before_run(self, run_context):
        should_stop = bool(self.should_stop(self._step))
        own = [int(self.termination.is_requested), int(should_stop), self._first_step]
        return estimator_api.SessionRunArgs([self._sums, self._global_step], {self._own: own})

    def after_run(self, run_context, run_values):
        sums, self._step = run_values.results
        num_terminated, num_stopping, first_steps = (int(value) for value in sums)
        if self._is_first and first_steps != self.num_workers * self._first_step:
            raise errors.UserError(
                f"TF_CONFIG: this worker starts at step {self._first_step}, but other workers start at a "
                "different step; all workers need the same --model_dir, on a shared volume"
            )
        self._is_first = False
        if num_terminated:
            self.termination.is_requested = True
        if num_terminated or num_stopping:
            run_context.request_stop()
