"""A program for test_replicas: trains a tiny model on one replica, and on two replicas that share each batch;
prints the largest difference of each weight as JSON.

It runs in its own process, because a process creates its CPU devices only once.
"""

import json
import sys
import tempfile

import numpy as np
import replica_programs
import small_checkpoints
import small_models
import tensorflow as tf

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.models.tasks import tasks
from estimator_asr.training import model_fn as model_fn_lib
from estimator_asr.training.optimizer import gradient_accumulation, optimization


def build_model_fn(model, num_batches, precision):
    task = tasks.for_model(model)

    def model_fn(features, labels, mode):
        losses = task.forward(features, labels, True).losses
        # A rate of 0.01 would teach the language model the data in 40 steps. Gradients would then be nearly
        # zero, and Adam's steps would follow their rounding errors (8e-5 after 50 steps).
        config = training_config.OptimizerConfig()
        optimizer = optimization.build_optimizer(config, tf.constant(0.003))
        step = tf.compat.v1.train.get_or_create_global_step()
        scale = optimization.LossScale() if precision == "float16" else None
        minimizer = optimization.Minimizer(optimizer, config.clip_norm, step, scale)
        loss = losses.to_minimise()
        if num_batches == 1:
            update = minimizer.minimize(loss)
        else:
            update = gradient_accumulation.minimize(losses, minimizer, num_batches)
        operations = {"train_op": update.train_op, "training_hooks": update.hooks}
        return estimator_api.EstimatorSpec(mode, loss=model_fn_lib.shown_loss(loss), **operations)

    return model_fn


def train(kind, *, num_replicas, steps, num_batches=1, is_whole=False, precision="float32"):
    model = small_models.make_without_dropout(tempfile.mkdtemp(), kind)
    model_fn = build_model_fn(model, num_batches, precision)
    estimator = estimator_api.Estimator(model_fn, config=replica_programs.run_config(num_replicas))
    estimator.train(small_models.make_input_fn(is_whole), max_steps=steps)
    return small_checkpoints.read_weights(estimator.model_dir)


if __name__ == "__main__":
    tf.compat.v1.disable_eager_execution()
    settings = json.loads(sys.argv[1])
    values = train(num_replicas=2, **settings)
    expected = train(num_replicas=1, is_whole=True, **settings)
    assert set(values) == set(expected), sorted(set(values) ^ set(expected))
    print(json.dumps({name: float(np.abs(values[name] - expected[name]).max()) for name in expected}))
