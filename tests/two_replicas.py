"""A program for test_optimization: one step of two CPU replicas with unequal batches; prints what came out as
JSON.

It needs a process of its own, because a process makes its CPU devices once.
"""

from __future__ import annotations

import json
import tempfile

import tensorflow as tf

from estimator_asr import config, estimator_api
from estimator_asr.training import objectives, optimization, strategies


def input_fn():
    data = {"direction": [[1.0, 0.0], [0.0, 1.0]], "num_labels": [2.0, 6.0], "rows": [[0, 1], [1, 1]]}
    dataset = tf.data.Dataset.from_tensor_slices((data, [0, 0])).batch(1).repeat()
    return dataset


class Fetch(estimator_api.SessionRunHook):
    def __init__(self, tensors, values):
        self.tensors, self.values = tensors, values

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self.tensors)

    def after_run(self, run_context, run_values):
        self.values.update({key: float(value) for key, value in run_values.results.items()})


def build_model_fn(get_loss, clip_norm, fetched):
    def model_fn(features, labels, mode):
        num_labels = features["num_labels"][0]
        losses = objectives.Losses(get_loss(features, num_labels), {}, num_labels)
        loss = losses.to_minimise()
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        update = optimization.minimize(
            loss, optimizer, clip_norm, tf.compat.v1.train.get_or_create_global_step()
        )
        hooks = [Fetch({"loss": loss, "gradient_norm": update.gradient_norm}, fetched)]
        return estimator_api.EstimatorSpec(mode, loss=loss, train_op=update.train_op, training_hooks=hooks)

    return model_fn


def dense_loss(features, num_labels):
    weights = tf.compat.v1.get_variable("scope/w", initializer=[0.0, 0.0])
    return num_labels * (1.0 + tf.reduce_sum(weights * features["direction"][0]))


def sparse_loss(features, num_labels):
    table = tf.compat.v1.get_variable("scope/w", initializer=[0.0, 0.0, 0.0])
    rows = tf.gather(table, tf.unique(features["rows"][0])[0])
    return num_labels * (1.0 + tf.reduce_sum(rows))


def run(get_loss, clip_norm):
    settings = config.TrainConfig(num_cpu_replicas=2)
    run_config = estimator_api.RunConfig(
        tempfile.mkdtemp(),
        session_config=strategies.session_config(settings),
        train_distribute=strategies.build_strategy(settings),
    )
    fetched = {}
    estimator = estimator_api.Estimator(build_model_fn(get_loss, clip_norm, fetched), config=run_config)
    estimator.train(input_fn, steps=1)
    return {"weights": estimator.get_variable_value("scope/w").tolist(), **fetched}


def main():
    tf.compat.v1.disable_eager_execution()
    runs = {"dense": (dense_loss, 0.5), "sparse": (sparse_loss, 0.0), "clipped sparse": (sparse_loss, 0.5)}
    print(json.dumps({name: run(*settings) for name, settings in runs.items()}))


if __name__ == "__main__":
    main()
