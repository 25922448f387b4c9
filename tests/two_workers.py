"""A program for test_workers: trains a tiny language model, by the processes of TF_CONFIG.

two_workers.py DATA_DIR MODEL_DIR TRAIN_STEPS CHECKPOINT_STEPS STEP_SECONDS
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from absl import logging

from estimator_asr import config, estimator_api, experiment, loop_config, model_directory
from estimator_asr.inputs import input_fn as input_fn_lib
from estimator_asr.inputs import stretches
from estimator_asr.training import course as course_lib
from estimator_asr.training import hooks, model_fn, step_hooks
from estimator_asr.training.devices import agreement, evaluator, strategies
from estimator_asr.training.devices import cluster as cluster_lib
from estimator_asr.training.keeping import exporters
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
INPUT = config.InputConfig(batch_tokens=12, num_buckets=3)


def make_model(data_dir: str, model_dir: str) -> model_directory.ModelDirectory:
    info = dataset_info.DatasetInfo.load(data_dir)
    settings = experiment.ExperimentConfig.for_data(
        info,
        language=LANGUAGE,
        optimizer=config.OptimizerConfig(warmup_epochs=0),
        input=INPUT,
        train=TRAIN,
        watch=loop_config.WatchConfig(try_worst_batch=False),
    )
    return model_directory.create_or_check(model_dir, settings, data_dir)


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
    data = [dataset_info.DatasetInfo.load(data_dir)], [data_dir]
    course = course_lib.plan(model, *data, first_step(model_dir))
    course = dataclasses.replace(course, max_steps=int(train_steps))
    if cluster is None or cluster.is_chief:
        stretches.save(model_dir, course.history)
    plan = step_hooks.TrainingPlan(course, hooks.Clock())
    estimator = estimator_api.Estimator(model_fn.build_model_fn(model, plan), config=run_config)
    with hooks.Termination() as termination:
        if cluster and cluster.is_evaluator:
            evaluate(estimator, data, course, termination)
        else:
            train(estimator, data, course, termination, cluster, float(step_seconds))
    if termination.is_requested:
        print("saved at", first_step(model_dir), flush=True)
        return 143
    return 0


def train(estimator, data, course, termination, cluster, step_seconds):
    input_fn = input_fn_lib.build_input_fn(
        *data,
        "train",
        INPUT,
        model="language",
        training=True,
        seed=1,
        start=course.start,
        num_replicas=len(cluster.workers) if cluster else 1,
    )
    slow = Slow(step_seconds)
    if cluster is None:
        estimator.train(input_fn, hooks=[slow], max_steps=course.max_steps)
        return
    together = agreement.AgreementHook(termination, len(cluster.workers))
    estimator_api.train_and_evaluate(
        estimator,
        estimator_api.TrainSpec(input_fn, course.max_steps, [slow, together]),
        estimator_api.EvalSpec(input_fn),  # workers evaluate nothing
    )


def evaluate(estimator, data, course, termination):
    evaluator.evaluate_checkpoints(
        estimator,
        input_fn_lib.build_input_fn(*data, "dev", INPUT, model="language", training=False),
        [exporters.Report()],
        is_last=lambda step: step >= course.max_steps,
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
