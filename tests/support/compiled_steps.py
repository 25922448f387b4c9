"""A program for test_xla_log: compiles a tiny step for batches of two shapes in three epochs.

It needs a process of its own, because TensorFlow reads its variables when it loads.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_cpu_global_jit")

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr import training_config
from estimator_asr.training.distributed import strategies, xla_log


def main(path):
    logging.set_verbosity(logging.INFO)
    log = xla_log.CompilationLog(path)
    log.redirect()
    hook = xla_log.CompilationHook(log, every_steps=2)
    inputs = tf.compat.v1.placeholder(tf.float32, [None, 8])
    weights = tf.compat.v1.get_variable("w", [8, 8], use_resource=True)
    hidden = tf.nn.softmax(tf.matmul(tf.nn.relu(tf.matmul(inputs, weights)), weights))
    step = weights.assign_sub(1e-3 * tf.gradients(tf.reduce_sum(hidden**2), weights)[0])
    session_config = strategies.session_config(training_config.TrainConfig(xla=True))
    with tf.compat.v1.Session(config=session_config) as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for epoch in range(3):
            for num_rows in (4, 8):
                session.run(step, {inputs: np.ones([num_rows, 8], np.float32)})
                hook.after_run(None, None)
            print("epoch", epoch, log.read().count, flush=True)
        hook.end(session)
    print("python's own line", file=sys.stderr)


if __name__ == "__main__":
    tf.compat.v1.disable_eager_execution()
    xla_log.restart_with_log("compiled_steps", sys.argv[1:])
    main(sys.argv[1])
