"""Starts a new model with the weights of another: a checkpoint of step 0 that every strategy just restores.

The training graph is built once on the CPU and initialised, so that the checkpoint holds all that training
restores; the weights that the source has are put into it, and neither optimiser state nor steps. What batch
norm counts starts at 0 too: its averages follow new data as soon as those of a new model do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api, model_directory
from estimator_asr.checkpointing.pretrained import keras_source, transfer, weight_files, weight_sources
from estimator_asr.training import model_fn
from estimator_asr.training import plan as plan_lib
from tfrecord_builder import errors

_WAIT_SECONDS = 600.0


def prepare(
    model: model_directory.ModelDirectory,
    plan: plan_lib.TrainingPlan,
    train_input_fn: Callable[[], tf.data.Dataset],
    is_chief: bool = True,
    describe: Callable[[], object] = lambda: None,
) -> None:
    """Writes model.ckpt-0 into a model directory without a checkpoint, if --warm_start_from is given.

    Args:
        model: the one to train.
        plan: as for training.
        train_input_fn: gives the dataset of training; nothing is read from it.
        is_chief: of several workers the chief writes, the others wait until it has.
        describe: called before the checkpoint is written, when the source is known to fit.

    Raises:
        errors.UserError: the source is missing, damaged, or does not fit; or the chief wrote nothing.
    """
    check_settings(model)
    source = model.config.train.warm_start_from
    if not source:
        return
    if weight_files.newest_checkpoint(model.path):
        logging.info("%s: has a checkpoint, so --warm_start_from=%s has no effect", model.path, source)
    elif is_chief:
        write(model, open_source(model), lambda: _build_training(model, plan, train_input_fn), describe)
    else:
        wait_for_checkpoint(model.path, _WAIT_SECONDS)


def check_settings(model: model_directory.ModelDirectory) -> None:
    """Checks --warm_start_from and --warm_start_tokens against each other and against the model directory.

    Raises:
        errors.UserError: they do not go together, or the source is the model directory itself.
    """
    source, tokens = model.config.train.warm_start_from, model.config.train.warm_start_tokens
    if tokens and not (source and weight_files.is_keras(source)):
        raise errors.UserError(
            f"train: --warm_start_tokens is {tokens}, expected it only with --warm_start_from=FILE.h5, "
            "as a model directory has its own tokens; leave it out"
        )
    root = source and not weight_files.is_keras(source) and weight_sources.find_root(source)
    if root and os.path.realpath(root) == os.path.realpath(model.path):
        raise errors.UserError(
            f"train: --warm_start_from is {source}, which is --model_dir={model.path} itself, expected "
            "another model; leave it out to continue that training, or give a new --model_dir"
        )


def open_source(model: model_directory.ModelDirectory) -> weight_sources.WeightSource:
    """Reads what --warm_start_from (and --warm_start_tokens) of the model's config name.

    Raises:
        errors.UserError: it is missing, damaged, or of another kind of model or frontend.
    """
    train = model.config.train
    if weight_files.is_keras(train.warm_start_from):
        source = keras_source.open_keras(model, train.warm_start_from, train.warm_start_tokens)
    else:
        source = weight_sources.open_checkpoint(model, train.warm_start_from)
    weight_sources.check_finite(source)
    return source


def write(
    model: model_directory.ModelDirectory,
    source: weight_sources.WeightSource,
    build_graph: Callable[[], object],
    describe: Callable[[], object] = lambda: None,
) -> None:
    """Writes model.ckpt-0: initial values, and the source's where it has them; logs what came from where.

    Args:
        model: the one to train.
        source: the weights to start with.
        build_graph: builds the training step in the default graph.
        describe: called before the checkpoint is written.

    Raises:
        errors.UserError: most of what both models have does not fit.
    """
    on_cpu = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=on_cpu) as session:
        tf.compat.v1.set_random_seed(model.config.train.seed)
        tf.compat.v1.train.get_or_create_global_step()
        build_graph()
        session.run(tf.compat.v1.global_variables_initializer())
        variables = {variable.op.name: variable for variable in tf.compat.v1.global_variables()}
        names = transfer.list_weights(variables, model.config.model)
        initial = session.run({name: variables[name] for name in names})
        values, report = transfer.combine(model, initial, source)
        transfer.check(report, source.path, model.path)
        describe()
        for name, value in values.items():
            variables[name].load(value.astype(np.float32), session)
        saver = tf.compat.v1.train.Saver(save_relative_paths=True)
        saver.save(session, os.path.join(model.path, "model.ckpt"), 0, write_meta_graph=False)
    for line in transfer.describe(report, source):
        logging.info("%s", line)


def _build_training(model, plan, train_input_fn):
    features, labels = tf.compat.v1.data.make_initializable_iterator(train_input_fn()).get_next()
    model_fn.build_model_fn(model, plan)(features, labels, estimator_api.ModeKeys.TRAIN)


def wait_for_checkpoint(model_dir: str, seconds: float) -> None:
    """Waits until the directory has a checkpoint.

    Raises:
        errors.UserError: it has none after so many seconds.
    """
    limit = time.monotonic() + seconds
    while not weight_files.newest_checkpoint(model_dir):
        if time.monotonic() > limit:
            raise errors.UserError(
                f"{model_dir}: the chief has written no checkpoint for {seconds:g} seconds, expected that of "
                "--warm_start_from; look at the chief's lines, and give all workers the same --model_dir"
            )
        time.sleep(min(1.0, seconds / 10))
