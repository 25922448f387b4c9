"""A program for test_model_fn: trains one step of the language model on one CPU replica and on two that share
its batch, and prints the scalar `loss` of both event files as JSON.

It needs a process of its own, because a process makes its CPU devices once.
"""

from __future__ import annotations

import glob
import json
import tempfile

import new_models
import replica_training
import small_batches
import tensorflow as tf

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.training import model_fn
from estimator_asr.training.distributed import strategies


def train(num_replicas):
    """Returns the scalar `loss` of the first step."""
    settings = training_config.TrainConfig(num_cpu_replicas=num_replicas)
    run_config = estimator_api.RunConfig(
        tempfile.mkdtemp(),
        tf_random_seed=1,
        save_summary_steps=1,
        checkpoint_save_graph_def=False,
        session_config=strategies.session_config(settings),
        train_distribute=strategies.build_strategy(settings),
    )
    model = small_batches.make_model(tempfile.mkdtemp(), "language")
    build = model_fn.build_model_fn(model, new_models.plan())
    estimator = estimator_api.Estimator(build, config=run_config)
    estimator.train(replica_training.make_input_fn(is_whole=num_replicas == 1), max_steps=1)
    (path,) = glob.glob(f"{run_config.model_dir}/events.out.tfevents.*")
    events = tf.compat.v1.train.summary_iterator(path)
    (loss,) = (value for event in events for value in event.summary.value if value.tag == "loss")
    return loss.simple_value


def main():
    tf.compat.v1.disable_eager_execution()
    print(json.dumps([train(1), train(2)]))


if __name__ == "__main__":
    main()
