"""A program for test_tensorboard: one step of two CPU replicas, its histograms in a directory.

It needs a process of its own, because a process makes its CPU devices once.
"""

from __future__ import annotations

import sys

import tensorflow as tf

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.monitoring import tensorboard
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import optimization, skippable


def input_fn():
    return tf.data.Dataset.from_tensor_slices(([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]], [0, 0])).batch(1).repeat()


def build_model_fn(model_dir):
    def model_fn(features, labels, mode):
        weights = tf.compat.v1.get_variable("scope/w", initializer=[1.0, 2.0, 4.0])
        loss = tf.reduce_sum(weights * features[0])
        step = tf.compat.v1.train.get_or_create_global_step()
        update = optimization.Minimizer(skippable.Momentum(tf.constant(1.0), 0.0), 0, step).minimize(loss)
        hook = tensorboard.histogram_hook(update.gradients, 1, model_dir)
        return estimator_api.EstimatorSpec(mode, loss=loss, train_op=update.train_op, training_hooks=[hook])

    return model_fn


def main(model_dir):
    tf.compat.v1.disable_eager_execution()
    settings = training_config.TrainConfig(num_cpu_replicas=2)
    run_config = estimator_api.RunConfig(
        model_dir,
        session_config=strategies.session_config(settings),
        train_distribute=strategies.build_strategy(settings),
    )
    estimator_api.Estimator(build_model_fn(model_dir), config=run_config).train(input_fn, steps=1)


if __name__ == "__main__":
    main(sys.argv[1])
