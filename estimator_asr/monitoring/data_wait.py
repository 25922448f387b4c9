"""Data wait: the fraction of training time that steps spend waiting for their input."""

from __future__ import annotations

import dataclasses

import tensorflow as tf
from absl import logging

from estimator_asr.estimator import estimator_api
from estimator_asr.monitoring import tensorboard
from estimator_asr.training import step_time

_MUCH = 0.1  # less is not worth a warning; the input is meant to stay below 0.02


@dataclasses.dataclass(eq=False)
class DataWaitHook(estimator_api.SessionRunHook):
    """Writes the fraction to TensorBoard, and warns once if it is large."""

    wait: tf.Tensor  # float64 [], of step_time.time_input
    step: tf.Tensor  # int64 [], number of the step
    every_steps: int  # number of steps that a fraction covers
    model_dir: str  # where the event file is
    clock: step_time.Clock
    doctor_command: str  # the command that times the input alone

    def begin(self):
        self._has_warned = False

    def after_create_session(self, session, coord):
        self._began = None

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs([self.wait, self.step])

    def after_run(self, run_context, run_values):
        wait, step = run_values.results
        if self._began is None:  # the first step has filled the pipeline
            self._start_window()
            return
        self._waited, self._steps = self._waited + wait, self._steps + 1
        if self._steps == self.every_steps:
            self._show(self._waited / max(self.clock.seconds - self._began, 1e-9), int(step) + 1)
            self._start_window()

    def _start_window(self):
        self._waited, self._steps, self._began = 0.0, 0, self.clock.seconds

    def _show(self, fraction, step):
        value = tensorboard.Value(tag="data_wait_fraction", simple_value=fraction)
        tensorboard.write_values(self.model_dir, [value], step)
        if fraction > _MUCH and not self._has_warned:
            self._has_warned = True
            logging.warning(
                "input: steps wait for data %.0f %% of the time, expected less than 2 %%; move the data to a "
                "faster disk, or time the input alone: %s",
                *(100 * fraction, self.doctor_command),
            )
