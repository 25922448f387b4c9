"""A program for test_progress: shows a simulated training run of 40 steps on standard error.

Step 20 is evaluated, with a log line during the evaluation; after step 30, training ends with an error.
"""

import time
import types

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf
from absl import logging

from estimator_asr.monitoring import progress
from estimator_asr.training import step_time
from tfrecord_builder import errors
from tfrecord_builder.program import program

NUM_STEPS = 40


def evaluate(step):
    logging.info("checkpoint of step %d", step)
    hook = progress.EvaluationHook("dev", 10)
    hook.after_create_session(None, None)
    for batch in range(10):
        time.sleep(0.12)
        hook.after_run(None, None)
        if batch == 5:
            logging.info("half of dev")
    hook.end(None)
    logging.info("dev at step %d: done", step)


def train():
    session = types.SimpleNamespace(run=lambda tensor: 0)  # the global step is 0
    names = {name: name for name in ("number", "loss", "error_rate", "inputs")}
    options = {"unit": "frames", "max_steps": NUM_STEPS, "seconds": 0.2, "num_replicas": 1}
    hook = progress.ProgressHook(names, **options, num_parameters=1000, clock=step_time.Clock())
    hook.begin()
    hook.after_create_session(session, None)
    for step in range(1, NUM_STEPS + 1):
        hook.before_run(None)
        time.sleep(0.03)
        values = {"number": step - 1, "loss": 1.5, "error_rate": 0.25, "inputs": 300}
        hook.after_run(None, tf.compat.v1.train.SessionRunValues(values, None, None))
        if step == 20:
            evaluate(step)
        if step == 30:
            raise errors.UserError("data: a shard is damaged, expected a complete one; copy it again.")


def main():
    logging.set_verbosity(logging.INFO)
    tf.get_logger().setLevel("ERROR")
    with progress.beside_log_lines():
        train()


if __name__ == "__main__":
    program.run(main)
