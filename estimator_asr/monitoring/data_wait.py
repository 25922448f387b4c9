"""How long the steps wait for data: the share of training time that a faster input would save."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api

TAG = "data_wait_fraction"
_MUCH = 0.1  # what is below is not worth a sentence; the input is meant to stay below 0.02


class DataWaitHook(estimator_api.SessionRunHook):
    """Writes the share to TensorBoard, and says it once if it is large."""

    def __init__(
        self,
        wait: tf.Tensor,
        step: tf.Tensor,
        *,
        every_steps: int,
        model_dir: str,
        seconds: Callable[[], float],
        doctor_command: str,
    ):
        """Takes what it looks at.

        Args:
            wait: float64 [], of step_time.time_input.
            step: int64 [], number of the step.
            every_steps: over so many steps the share is taken.
            model_dir: whose summary gets it.
            seconds: gives the time spent in training so far.
            doctor_command: what times the input alone.
        """
        self._wait = wait
        self._step = step
        self._every_steps = every_steps
        self._model_dir = model_dir
        self._seconds = seconds
        self._doctor_command = doctor_command
        self._is_said = False

    def begin(self):
        self._writer = tf.compat.v1.summary.FileWriterCache.get(self._model_dir)

    def after_create_session(self, session, coord):
        self._waited, self._steps, self._began = 0.0, 0, None

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs([self._wait, self._step])

    def after_run(self, run_context, run_values):
        wait, step = run_values.results
        if self._began is None:  # the first step has filled the pipeline
            self._began = self._seconds()
            return
        self._waited, self._steps = self._waited + wait, self._steps + 1
        if self._steps == self._every_steps:
            self._show(self._waited / max(self._seconds() - self._began, 1e-9), int(step) + 1)
            self._waited, self._steps, self._began = 0.0, 0, self._seconds()

    def _show(self, share, step):
        value = tf.compat.v1.Summary.Value(tag=TAG, simple_value=share)
        self._writer.add_summary(tf.compat.v1.Summary(value=[value]), step)
        if share > _MUCH and not self._is_said:
            self._is_said = True
            logging.warning(
                "input: steps wait for data %.0f %% of the time, expected less than 2 %%; put the data on a "
                "faster disk, or time the input alone: %s",
                *(100 * share, self._doctor_command),
            )
