"""Session hooks: an orderly end when the system asks for it."""

from __future__ import annotations

import signal

from estimator_asr import estimator_api
from estimator_asr.training import step_time


class Terminated(Exception):
    """The system asked for the end (SIGTERM); the last checkpoint is on disk."""


class Termination:
    """SIGTERM during training: the step ends, a checkpoint is saved, nothing is evaluated any more."""

    def __init__(self):
        self.is_requested = False

    def __enter__(self):
        self._previous = signal.signal(signal.SIGTERM, self._request)
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGTERM, self._previous)

    def raise_if_requested(self) -> None:
        """Raises Terminated if the end was asked for."""
        if self.is_requested:
            raise Terminated

    def _request(self, signum, frame):
        self.is_requested = True


class StopTrainingHook(estimator_api.SessionRunHook):
    """Ends training after the step in which SIGTERM came; the saver hook then saves."""

    def __init__(self, termination: Termination):
        self._termination = termination

    def after_run(self, run_context, run_values):
        if self._termination.is_requested:
            run_context.request_stop()


class StopEvaluationHook(estimator_api.SessionRunHook):
    """Leaves evaluation at once: its checkpoint is saved already."""

    def __init__(self, termination: Termination):
        self._termination = termination

    def after_run(self, run_context, run_values):
        self._termination.raise_if_requested()


class CheckpointListener(estimator_api.CheckpointSaverListener):
    """Stands before the evaluation of a checkpoint: stops the clock, and skips evaluation after SIGTERM."""

    def __init__(self, termination: Termination, clock: step_time.Clock):
        self._termination = termination
        self._clock = clock

    def before_save(self, session, global_step_value):
        self._clock.pause()

    def after_save(self, session, global_step_value):
        self._termination.raise_if_requested()

    def end(self, session, global_step_value):
        self._termination.raise_if_requested()
