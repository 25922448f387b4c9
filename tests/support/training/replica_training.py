"""A program for test_replicas: trains tiny models on one replica or two, on whole batches or on their parts,
and prints the largest differences of the weights as JSON.

It needs a process of its own, because a process makes its CPU devices once.
"""

import json
import sys
import tempfile

import numpy as np
import replica_programs
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
        # At 0.01 the language model is done after 40 steps; of gradients that are nearly zero Adam then makes
        # steps of their rounding (8e-5 after 50).
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
        shown = model_fn_lib.shown_loss(loss)
        return estimator_api.EstimatorSpec(
            mode, loss=shown, train_op=update.train_op, training_hooks=update.hooks
        )

    return model_fn


def train(kind, *, num_replicas, steps, num_batches=1, is_whole=False, precision="float32"):
    """Returns the variables of the checkpoint."""
    model = small_models.make_without_dropout(tempfile.mkdtemp(), kind)
    model_fn = build_model_fn(model, num_batches, precision)
    estimator = estimator_api.Estimator(model_fn, config=replica_programs.run_config(num_replicas))
    estimator.train(small_models.make_input_fn(is_whole), max_steps=steps)
    reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def differences(values, expected):
    """Returns the largest difference of each variable."""
    assert set(values) == set(expected), sorted(set(values) ^ set(expected))
    return {name: float(np.abs(values[name] - expected[name]).max()) for name in expected}


if __name__ == "__main__":
    tf.compat.v1.disable_eager_execution()
    settings = json.loads(sys.argv[1])
    two = train(num_replicas=2, **settings)
    print(json.dumps(differences(two, train(num_replicas=1, is_whole=True, **settings))))
