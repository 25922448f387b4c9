"""A program for test_workers: a tiny language model on made-up batches, by the processes of TF_CONFIG.

    two_workers.py DATA_DIR MODEL_DIR TRAIN_STEPS CHECKPOINT_STEPS STEP_SECONDS

Each step has one global batch of four utterances; each worker takes its part of the rows.
"""

from __future__ import annotations

import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr import config, estimator_api, experiment, model_directory
from estimator_asr.training import agreement, evaluator, exporters, hooks, model_fn, step_hooks, strategies
from estimator_asr.training import cluster as cluster_lib
from tfrecord_builder import dataset_info, errors

LANGUAGE = config.LanguageConfig(
    language_layers=1,
    language_units=16,
    language_inner_units=16,
    language_heads=2,
    ngram_rows=31,
    ngram_units=4,
    ngram_dropout=0.0,
    language_dropout=0.0,
)
TRAIN = config.TrainConfig(model="language")
BATCH_SIZE = 4


def make_model(data_dir: str, model_dir: str) -> model_directory.ModelDirectory:
    info = dataset_info.DatasetInfo.load(data_dir)
    settings = experiment.ExperimentConfig.for_data(
        info, language=LANGUAGE, optimizer=config.OptimizerConfig(warmup_epochs=0), train=TRAIN
    )
    return model_directory.create_or_check(model_dir, settings, data_dir)


def make_batch(step, rank, num_workers):
    """Rows rank, rank + num_workers, ... of the batch of a step; utterances have 1 to 3 tokens."""
    rng = np.random.default_rng(step)
    lengths = rng.integers(1, 4, BATCH_SIZE).astype(np.int32)
    is_token = np.arange(3) < lengths[:, None]
    tokens = np.where(is_token, rng.integers(1, 5, is_token.shape), 0).astype(np.int32)
    batch = {"token_ids": tokens, "num_tokens": lengths, "character_ids": tokens, "num_characters": lengths}
    return {key: value[rank::num_workers] for key, value in batch.items()}


def build_input_fn(first_step):
    def input_fn(input_context=None):
        part = (
            (input_context.input_pipeline_id, input_context.num_input_pipelines) if input_context else (0, 1)
        )
        names = ("token_ids", "num_tokens", "character_ids", "num_characters")

        def read(step):
            values = tf.numpy_function(
                lambda step: [make_batch(step, *part)[name] for name in names], [step], [tf.int32] * 4
            )
            shapes = {"token_ids": [None, 3], "character_ids": [None, 3]}
            batch = {name: tf.ensure_shape(x, shapes.get(name, [None])) for name, x in zip(names, values)}
            labels = {name: batch[name] for name in names[2:]}
            return {**batch, "seed": tf.stack([tf.constant(1, tf.int64), step])}, labels

        return tf.data.Dataset.range(first_step, tf.int64.max).map(read)

    return input_fn


class Slow(estimator_api.SessionRunHook):
    """Leaves time to kill."""

    def __init__(self, seconds):
        self._seconds = seconds

    def after_run(self, run_context, run_values):
        time.sleep(self._seconds)


def first_step(model_dir):
    checkpoint = tf.train.latest_checkpoint(model_dir)
    return int(tf.train.load_variable(checkpoint, "global_step")) if checkpoint else 0


def main(argv):
    data_dir, model_dir, train_steps, checkpoint_steps, step_seconds = argv[1:]
    logging.set_verbosity(logging.INFO)
    tf.get_logger().setLevel("ERROR")
    tf.compat.v1.disable_eager_execution()
    strategy = strategies.build_strategy(TRAIN)
    cluster = cluster_lib.read()
    model = (
        make_model(data_dir, model_dir)
        if cluster is None
        else model_directory.open_model_directory(model_dir)
    )
    run_config = estimator_api.RunConfig(
        model_dir=model_dir,
        tf_random_seed=1,
        session_config=strategies.session_config(TRAIN),
        train_distribute=strategy,
        save_checkpoints_steps=int(checkpoint_steps),
    )
    plan = step_hooks.TrainingPlan(4.0, 10.0, int(train_steps), hooks.Clock())
    estimator = estimator_api.Estimator(model_fn.build_model_fn(model, plan), config=run_config)
    input_fn = build_input_fn(first_step(model_dir))
    with hooks.Termination() as termination:
        if cluster and cluster.is_evaluator:
            evaluate(estimator, plan, termination)
        else:
            train(estimator, input_fn, plan, termination, cluster, float(step_seconds))
    if termination.is_requested:
        print("saved at", first_step(model_dir), flush=True)
        return 143
    return 0


def train(estimator, input_fn, plan, termination, cluster, step_seconds):
    slow = Slow(step_seconds)
    if cluster is None:
        estimator.train(input_fn, hooks=[slow], max_steps=plan.max_steps)
        return
    together = agreement.AgreementHook(termination, len(cluster.workers))
    estimator_api.train_and_evaluate(
        estimator,
        estimator_api.TrainSpec(input_fn, plan.max_steps, [slow, together]),
        estimator_api.EvalSpec(input_fn),  # not used by workers
    )


def evaluate(estimator, plan, termination):
    evaluator.evaluate_checkpoints(
        estimator,
        lambda: build_input_fn(10**6)().take(2),
        [exporters.Report()],
        is_last=lambda step: step >= plan.max_steps,
        throttle_seconds=0,
        termination=termination,
    )


if __name__ == "__main__":
    try:
        code = main(sys.argv)
    except hooks.Terminated:
        code = 143
    except errors.UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    sys.exit(code)
