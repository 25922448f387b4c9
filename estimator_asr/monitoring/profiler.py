"""Profiles a range of training steps for TensorBoard's PROFILE tab."""

from __future__ import annotations

import dataclasses
import os

import tensorflow as tf
from absl import logging

from estimator_asr.estimator import estimator_api


@dataclasses.dataclass(eq=False)
class ProfileHook(estimator_api.SessionRunHook):
    """Records the steps from first to last, both included, into MODEL_DIR/plugins/profile."""

    first: int
    last: int
    model_dir: str

    def begin(self):
        self._is_recording = False
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session, coord):
        self._step = int(session.run(self._global_step)) + 1  # the next one, counted from 1

    def before_run(self, run_context):
        if self.first <= self._step <= self.last:
            if not self._is_recording:
                tf.profiler.experimental.start(self.model_dir)
                self._is_recording = True
            self._trace = tf.profiler.experimental.Trace("train", step_num=self._step, _r=1)
            self._trace.__enter__()

    def after_run(self, run_context, run_values):
        if self._is_recording:
            self._trace.__exit__(None, None, None)
            if self._step == self.last:
                self._stop()
        self._step += 1

    def end(self, session):
        if self._is_recording:
            self._stop()

    def _stop(self):
        tf.profiler.experimental.stop()
        self._is_recording = False
        where = os.path.join(self.model_dir, "plugins", "profile")
        logging.info("profile of the steps up to %d: %s", min(self._step, self.last), where)
