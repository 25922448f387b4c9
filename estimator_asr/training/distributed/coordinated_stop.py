"""Coordinated stop: all workers of a cluster end training after the same step.

A worker that stops alone leaves the others waiting forever, so each step sums the stop requests of all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from estimator_asr import estimator_api
from estimator_asr.training import stopping
from tfrecord_builder import errors


@dataclasses.dataclass(eq=False)
class CoordinatedStopHook(estimator_api.SessionRunHook):
    """Stops all workers when one of them received SIGTERM or met its stopping criterion.

    Every worker needs it, at the same position among its hooks. In the first step it also checks that all
    workers started from the same checkpoint.
    """

    termination: stopping.Termination  # of this worker; requested on all workers if one received SIGTERM
    num_workers: int
    should_stop: Callable[[int], bool]  # called in every step with the number of completed steps

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()
        self._own = tf.compat.v1.placeholder_with_default(tf.zeros([3], tf.int64), [3], "stop_requests")
        reduce = tf.distribute.get_strategy().extended.reduce_to
        self._sums = reduce(tf.distribute.ReduceOp.SUM, self._own, self._own)

    def after_create_session(self, session, coord):
        self._is_first = True
        self._first_step = self._step = int(session.run(self._global_step))

    def before_run(self, run_context):
        own = [int(self.termination.is_requested), int(self.should_stop(self._step)), self._first_step]
        return estimator_api.SessionRunArgs([self._sums, self._global_step], {self._own: own})

    def after_run(self, run_context, run_values):
        sums, self._step = run_values.results
        num_terminated, num_stopping, first_steps = (int(value) for value in sums)
        if self._is_first and first_steps != self.num_workers * self._first_step:
            raise errors.UserError(
                f"TF_CONFIG: this worker starts at step {self._first_step} and others at another, expected "
                "the same checkpoint for all; use one --model_dir on a shared volume"
            )
        self._is_first = False
        if num_terminated:
            self.termination.is_requested = True
        if num_terminated or num_stopping:
            run_context.request_stop()
