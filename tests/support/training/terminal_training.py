"""Program of test_progress: a made-up training of 40 steps, shown on standard error as a real one is.

Step 20 is evaluated, with a log line in the middle; step 30 ends with an error.
"""

import time

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf
from absl import logging

from estimator_asr.monitoring import progress
from estimator_asr.training import step_time
from tfrecord_builder import errors
from tfrecord_builder.program import program

NUM_STEPS = 40


class Session:
    def __init__(self):
        self.step = 0

    def run(self, tensor):
        return self.step


def evaluate(session):
    logging.info("checkpoint of step %d", session.step)
    hook = progress.EvaluationHook("dev", 10)
    hook.after_create_session(session, None)
    for batch in range(10):
        time.sleep(0.12)
        hook.after_run(None, None)
        if batch == 5:
            logging.info("half of dev")
    hook.end(session)
    logging.info("dev at step %d: done", session.step)


def train():
    session = Session()
    names = {name: name for name in ("number", "loss", "error_rate", "inputs")}
    hook = progress.ProgressHook(
        names,
        unit="frames",
        max_steps=NUM_STEPS,
        seconds=0.2,
        num_replicas=1,
        num_parameters=1000,
        clock=step_time.Clock(),
    )
    hook.begin()
    hook.after_create_session(session, None)
    for step in range(NUM_STEPS):
        hook.before_run(None)
        time.sleep(0.03)
        values = {"number": step, "loss": 1.5, "error_rate": 0.25, "inputs": 300}
        hook.after_run(None, tf.compat.v1.train.SessionRunValues(values, None, None))
        session.step = step + 1
        if session.step == NUM_STEPS // 2:
            evaluate(session)
        if session.step == 30:
            raise errors.UserError("data: a shard is damaged, expected a complete one; copy it again.")


def main():
    logging.set_verbosity(logging.INFO)
    tf.get_logger().setLevel("ERROR")
    with progress.beside_log_lines():
        train()


if __name__ == "__main__":
    program.run(main)
