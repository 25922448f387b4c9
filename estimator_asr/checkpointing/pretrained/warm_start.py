"""Warm start: writes a checkpoint of step 0 with pretrained weights, which training then restores.

The training graph is built once on the CPU and initialised, so that the checkpoint holds all variables that
training restores. Weights of the source replace initial values; its optimizer state and step do not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr.checkpointing import checkpoints
from estimator_asr.checkpointing.pretrained import transfer, weight_sources
from estimator_asr.experiment import model_directory
from tfrecord_builder import errors

_WAIT_SECONDS, _POLL_SECONDS = 600.0, 1.0


def prepare(
    model: model_directory.ModelDirectory,
    build_graph: Callable[[], object],
    is_chief: bool,
    before_save: Callable[[], object],
) -> None:
    """Writes model.ckpt-0 with the weights of --warm_start_from into a model directory without a checkpoint.

    The chief does; the other workers wait for it. `build_graph` builds the training step in the default
    graph; `before_save` is called when the source is known to fit.

    Raises:
        errors.UserError: the source is the model directory itself, is missing, damaged, or does not fit; or
            the chief wrote nothing.
    """
    source = model.config.train.warm_start_from
    root = weight_sources.find_root(source)
    if root and os.path.realpath(root) == os.path.realpath(model.path):
        raise errors.UserError(
            f"train: --warm_start_from is {source}, which is --model_dir={model.path} itself, expected "
            "another model; leave it out to continue that training, or choose a new --model_dir"
        )
    if checkpoints.find_latest(model.path):
        logging.info("%s: has a checkpoint, so --warm_start_from=%s has no effect", model.path, source)
    elif is_chief:
        write(model, weight_sources.open_source(model), build_graph, before_save)
    else:
        _wait_for_checkpoint(model.path)


def write(
    model: model_directory.ModelDirectory,
    source: weight_sources.WeightSource,
    build_graph: Callable[[], object],
    before_save: Callable[[], object],
) -> None:
    """Writes model.ckpt-0 with the weights of a source, and logs where each weight comes from.

    Raises errors.UserError if most of the variables that both models have do not fit.
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
        before_save()
        for name, value in values.items():
            variables[name].load(value.astype(np.float32), session)
        saver = tf.compat.v1.train.Saver(save_relative_paths=True)
        saver.save(session, os.path.join(model.path, "model.ckpt"), 0, write_meta_graph=False)
    for line in transfer.describe(report, source):
        logging.info("%s", line)


def _wait_for_checkpoint(model_dir):
    limit = time.monotonic() + _WAIT_SECONDS
    while not checkpoints.find_latest(model_dir):
        if time.monotonic() > limit:
            raise errors.UserError(
                f"{model_dir}: the chief has written no checkpoint for {_WAIT_SECONDS:g} seconds, expected "
                "that of --warm_start_from; read the chief's log, and use one --model_dir for all workers"
            )
        time.sleep(_POLL_SECONDS)
