"""A program for test_warm_start: one step of training of a model directory on two CPU replicas.

It needs a process of its own, because a process makes its CPU devices once.
"""

from __future__ import annotations

import sys

import new_models
import tensorflow as tf

from estimator_asr.experiment import estimator_api, model_directory, training_config
from estimator_asr.training import model_fn
from estimator_asr.training.distributed import strategies


def main(model_dir):
    tf.compat.v1.disable_eager_execution()
    model = model_directory.open_model_directory(model_dir)
    settings = training_config.TrainConfig(num_cpu_replicas=2)
    run_config = estimator_api.RunConfig(
        model_dir,
        session_config=strategies.session_config(settings),
        train_distribute=strategies.build_strategy(settings),
    )
    build = model_fn.build_model_fn(model, new_models.plan())
    estimator_api.Estimator(build, config=run_config).train(new_models.build_input_fn(model), max_steps=1)


if __name__ == "__main__":
    main(sys.argv[1])
