"""A program for test_step_time: two CPU replicas, of which one alone is asked for a sum over both after one
step, so that its collective waits forever.

Arguments: an empty directory, and the limit of a later step in minutes.
"""

from __future__ import annotations

import pathlib
import sys

import loop_models
import tensorflow as tf

from estimator_asr.experiment import estimator_api
from estimator_asr.training import loop, step_time


class FetchAlone(estimator_api.SessionRunHook):
    def __init__(self, step):
        self.norm = step.update.gradient_norm  # of the first replica

    def after_run(self, run_context, run_values):
        print("waits", flush=True)
        run_context.session.run(self.norm)


def main(path, minutes):
    tf.compat.v1.disable_eager_execution()
    step_time.POLL_SECONDS, step_time.SIGNAL_SECONDS = 0.1, 1.0
    model, infos, dirs = loop_models.make_model(
        pathlib.Path(path), num_cpu_replicas=2, train_steps=40, max_step_minutes=float(minutes)
    )
    loop.train(model, infos, dirs, observe=lambda plan, clock: loop.Observers([FetchAlone]))


if __name__ == "__main__":
    main(*sys.argv[1:])
