"""What the workers of a cluster decide together.

A worker that leaves alone lets the others wait for ever, so the wish to stop is summed over all of them in
each step, and all end after the same one.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from estimator_asr import estimator_api
from estimator_asr.training import termination as hooks
from tfrecord_builder import errors


class AgreementHook(estimator_api.SessionRunHook):
    """Ends training on all workers after the same step: when SIGTERM came to one of them, or one is content.

    Every worker needs it, at the same place among its hooks. In the first step it also makes sure that all
    started from the same checkpoint.
    """

    def __init__(
        self,
        termination: hooks.Termination,
        num_workers: int,
        is_content: Callable[[int], bool] = lambda step: False,
    ):
        """Takes the wishes of this worker.

        Args:
            termination: says whether SIGTERM came; is requested on all workers if it is on one.
            num_workers: of the cluster.
            is_content: whether training may end early, given how many steps are made; asked in every step.
        """
        self._termination = termination
        self._num_workers = num_workers
        self._is_content = is_content
        self._is_first = True

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()
        self._mine = tf.compat.v1.placeholder_with_default(tf.zeros([3], tf.int64), [3], "wishes")
        reduce = tf.distribute.get_strategy().extended.reduce_to
        self._sums = reduce(tf.distribute.ReduceOp.SUM, self._mine, self._mine)

    def after_create_session(self, session, coord):
        self._first_step = self._step = int(session.run(self._global_step))

    def before_run(self, run_context):
        mine = [int(self._termination.is_requested), int(self._is_content(self._step)), self._first_step]
        return estimator_api.SessionRunArgs([self._sums, self._global_step], {self._mine: mine})

    def after_run(self, run_context, run_values):
        sums, self._step = run_values.results
        terminated, content, first_steps = (int(value) for value in sums)
        if self._is_first and first_steps != self._num_workers * self._first_step:
            raise errors.UserError(
                f"TF_CONFIG: this worker begins at step {self._first_step} and others at another, expected "
                "the same checkpoint for all; give all of them one --model_dir on a shared volume"
            )
        self._is_first = False
        if terminated:
            self._termination.is_requested = True
        if terminated or content:
            run_context.request_stop()
