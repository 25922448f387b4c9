"""A program for test_replicas: trains tiny models on one replica or two, on whole batches or on their parts,
and prints the largest differences of the weights as JSON.

It needs a process of its own, because a process makes its CPU devices once.
"""

from __future__ import annotations

import json
import sys
import tempfile

import numpy as np
import small_batches
import small_records
import tensorflow as tf

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.models.tasks import tasks
from estimator_asr.training import model_fn as model_fn_lib
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import gradient_accumulation, optimization

# Rows of each batch that each of two replicas gets; None is a row without frames and tokens.
PARTS = (([0, 1, 2], [3, 4, 5]), ([0], [1, 2, 3, 4, 5]), ([0, 1, 2, 3, 4, 5], [None]))


def make_input_fn(is_whole):
    """Batches whole, or first the one part and then the other."""
    records = small_records.make_records("train", 18, small_records.TOKENS, small_records.FRONTEND, True)
    parts = []
    for index, rows in enumerate(PARTS):
        own = records[6 * index : 6 * index + 6]
        parts += [small_batches.make_part(own, part) for part in ([range(6)] if is_whole else rows)]

    def input_fn():
        datasets = [tf.data.Dataset.from_tensors((part, part)) for part in parts]
        dataset = datasets[0]
        for other in datasets[1:]:
            dataset = dataset.concatenate(other)
        return dataset.repeat()

    return input_fn


def build_model_fn(model, optimizer_config, num_batches, precision="float32"):
    task = tasks.for_model(model)

    def model_fn(features, labels, mode):
        losses = task.forward(features, labels, True).losses
        # At 0.01 the language model is done after 40 steps; of gradients that are nearly zero Adam then makes
        # steps of their rounding (8e-5 after 50).
        optimizer = optimization.build_optimizer(optimizer_config, tf.constant(0.003))
        step = tf.compat.v1.train.get_or_create_global_step()
        scale = optimization.LossScale() if precision == "float16" else None
        minimizer = optimization.Minimizer(optimizer, optimizer_config.clip_norm, step, scale)
        loss = losses.to_minimise()
        if num_batches == 1:
            update = minimizer.minimize(loss)
        else:
            update = gradient_accumulation.minimize(losses, minimizer, num_batches)
        return estimator_api.EstimatorSpec(
            mode,
            loss=model_fn_lib.shown_loss(loss),
            train_op=update.train_op,
            training_hooks=update.hooks,
        )

    return model_fn


def train(kind, *, num_replicas, num_batches=1, is_whole=False, steps=50, precision="float32", **optimizer):
    """Returns the variables of the checkpoint."""
    settings = training_config.TrainConfig(num_cpu_replicas=num_replicas)
    run_config = estimator_api.RunConfig(
        tempfile.mkdtemp(),
        tf_random_seed=1,
        checkpoint_save_graph_def=False,  # its text takes longer than the steps
        session_config=strategies.session_config(settings),
        train_distribute=strategies.build_strategy(settings),
    )
    model = small_batches.make_model(tempfile.mkdtemp(), kind)
    model_fn = build_model_fn(model, training_config.OptimizerConfig(**optimizer), num_batches, precision)
    estimator = estimator_api.Estimator(model_fn, config=run_config)
    estimator.train(make_input_fn(is_whole), max_steps=steps)
    reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def differences(values, expected):
    """Largest difference of each variable, the largest first."""
    if set(values) != set(expected):
        raise ValueError(sorted(set(values) ^ set(expected)))
    found = {name: float(np.abs(values[name] - expected[name]).max()) for name in expected}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def main():
    """Argument: JSON, a list of pairs of settings of `train` that should end alike."""
    tf.compat.v1.disable_eager_execution()
    pairs = json.loads(sys.argv[1])
    print(json.dumps([differences(train(**one), train(**other)) for one, other in pairs]))


if __name__ == "__main__":
    main()
