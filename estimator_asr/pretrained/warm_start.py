"""Warm start: writes a checkpoint for step 0 with pretrained weights, which training then restores.

The training graph is first built and initialised on the CPU, so that the checkpoint has all variables that
training restores. Then weights from the source, which is a checkpoint of this program or a pretrained
encoder, replace the initial weights. The source's optimizer state and step are not used.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Optional

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr.experiment import checkpoints, experiment, model_directory
from estimator_asr.pretrained import encoder_weights, transfer
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.program import config_json, urls

_WAIT_SECONDS, _POLL_SECONDS = 600.0, 1.0
_CHECKPOINT_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_PARENTS = 4  # number of directories above a checkpoint to search for config.json
_NGRAMS = "language/ngrams"


def prepare(
    model: model_directory.ModelDirectory,
    build_graph: Callable[[], object],
    is_chief: bool,
    before_save: Callable[[], object],
) -> None:
    """Writes model.ckpt-0 with the weights from --warm_start_from, unless the directory has a checkpoint.

    The chief writes the checkpoint, and the other workers wait for it. `build_graph` builds the training step
    in the default graph; `before_save` is called once the weights are known to fit.

    Raises errors.UserError if the source is the model directory itself, is missing or damaged, or does not
    fit, or if the chief has not written the checkpoint in time.
    """
    source = model.config.train.warm_start_from
    root = None if _is_encoder(source) else find_root(source)
    if root and os.path.realpath(root) == os.path.realpath(model.path):
        raise errors.UserError(
            f"train: --warm_start_from={source} is the same model directory as --model_dir={model.path}; "
            "leave out --warm_start_from to continue its training, or choose a new --model_dir"
        )
    if checkpoints.find_latest(model.path):
        if root:  # otherwise, train itself may have set warm_start_from to the data's encoder
            logging.info("%s has a checkpoint, so --warm_start_from=%s has no effect", model.path, source)
    elif is_chief:
        write(model, open_source(model), build_graph, before_save)
    else:
        _wait_for_checkpoint(model.path)


def write(
    model: model_directory.ModelDirectory,
    source: transfer.WeightSource,
    build_graph: Callable[[], object],
    before_save: Callable[[], object],
) -> None:
    """Writes model.ckpt-0 with weights from a source, and logs which variables were copied.

    Raises errors.UserError if most of the variables common to both models do not fit.
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
                f"{model_dir}: the chief did not write a checkpoint with the weights of --warm_start_from "
                f"within {_WAIT_SECONDS:g} seconds; read the chief's log, and use the same --model_dir "
                "for all workers"
            )
        time.sleep(_POLL_SECONDS)


def open_source(model: model_directory.ModelDirectory) -> transfer.WeightSource:
    """Reads the weights at the path in the model's setting train.warm_start_from.

    Raises errors.UserError if the weights are missing, damaged, non-finite or of another kind of model.
    """
    path = model.config.train.warm_start_from
    source = _open_encoder(model, path) if _is_encoder(path) else _open_checkpoint(model, path)
    bad = [name for name, value in source.values.items() if not np.all(np.isfinite(value))]
    if bad:
        raise errors.UserError(
            f"{source.path}: {len(bad)} of {len(source.values)} variables contain NaN or Inf (first: "
            f"{bad[0]}); choose an earlier checkpoint"
        )
    return source


def find_pretrained(path: Optional[str], num_trained: int) -> Optional[pretrained_encoder.Applied]:
    """Returns the pretrained encoder at `path` (published, or in a model directory) and the blocks to use.

    Returns None if `path` is None, or if the model at `path` has no pretrained encoder. The encoder's last
    `num_trained` blocks will also be trained.
    Raises errors.UserError if the encoder is missing or damaged, or has no block below the blocks to train.
    """
    if path is None:
        return None
    if not _is_encoder(path):
        if os.path.isdir(path) and not checkpoints.find_latest(path):
            encoder_weights.read(path)  # raises an error that says what is missing
        find_checkpoint(path)
        root = find_root(path)
        return experiment.ExperimentConfig.load(root).acoustic.pretrained if root else None
    encoder, _ = encoder_weights.read(path)
    if num_trained >= encoder.layers:
        raise errors.UserError(
            f"train: --trainable_blocks is {num_trained}, expected at most {encoder.layers - 1}, because "
            f"{path} has {encoder.layers} blocks, and the model also reads the block below the trained blocks"
        )
    last = encoder.layers - num_trained
    lower = (layer for layer in pretrained_encoder.choose_layers(encoder.layers) if layer < last)
    return pretrained_encoder.Applied(encoder, (*lower, last))


def is_other_file(path: str) -> bool:
    """Returns True if the path is a file that does not belong to a checkpoint."""
    return os.path.isfile(path) and not _CHECKPOINT_SUFFIX.search(path)


def find_checkpoint(path: str) -> str:
    """Returns the prefix of the checkpoint at `path`, or of the newest checkpoint if `path` is a directory.

    Raises errors.UserError if there is no checkpoint, or if `path` is in an object store.
    """
    if urls.is_remote(path):
        raise errors.UserError(f"{path} is in an object store, {urls.EXPECTED_LOCAL}")
    if os.path.isdir(path):
        return checkpoints.latest(path)
    if is_other_file(path):
        raise errors.UserError(
            f"{path} is not a TensorFlow checkpoint; pass a model directory, or a checkpoint in one"
        )
    prefix = _CHECKPOINT_SUFFIX.sub("", path)
    if not os.path.exists(f"{prefix}.index"):
        raise errors.UserError(f"{path} does not exist; check the path")
    return prefix


def find_root(path: str) -> Optional[str]:
    """Returns the model directory that is or contains `path`; None if there is no such directory."""
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    for _ in range(_PARENTS + 1):
        if os.path.exists(os.path.join(directory, experiment.CONFIG_FILE)):
            return directory
        directory = os.path.dirname(os.path.abspath(directory))
    return None


def _is_encoder(path):
    """Returns True if a directory has an encoder but no checkpoint (a model directory may have both)."""
    return encoder_weights.find(path) is not None and not checkpoints.find_latest(path)


def _open_encoder(model, path):
    encoder, tensors = encoder_weights.read(path)
    pretrained = model.config.acoustic.pretrained
    if pretrained is None or pretrained.encoder != encoder:
        applied = pretrained and pretrained.encoder
        want = f"{applied.family} with {applied.sha256[:12]}" if applied else "no encoder"
        raise errors.UserError(
            f"{path}: the encoder is {encoder.family} with sha256 {encoder.sha256[:12]}, but the "
            f"model and the data use {want}; leave out --warm_start_from"
        )
    values = encoder_weights.to_variables(encoder, tensors)
    values = {f"acoustic/encoder/pretrained/{name}": value for name, value in values.items()}
    return transfer.WeightSource(path, values, {}, ())


def _open_checkpoint(model, path):
    checkpoint, root = find_checkpoint(path), find_root(path)
    if root is None:
        raise errors.UserError(
            f"{path}: neither the checkpoint's directory nor a directory above it contains "
            f"{experiment.CONFIG_FILE}; pass a checkpoint inside a model directory"
        )
    source = model_directory.open_model_directory(root)
    remarks = _check_kind(model, source)
    checkpoints.check(checkpoint, source)
    variables = dict(checkpoints.iterate(checkpoint))
    values = {name: variables[name] for name in checkpoints.find_model_variables(variables)}
    if model.config.acoustic.trainable_blocks and encoder_weights.find(root):  # adds blocks that were frozen
        values = {**_open_encoder(model, root).values, **values}
    if _NGRAMS in values and source.tokens.tokens != model.tokens.tokens:
        del values[_NGRAMS]
        remarks.append(f"{_NGRAMS} is initialised, because its rows are for n-grams of other tokens")
    return transfer.WeightSource(checkpoint, values, transfer.list_names(source), tuple(remarks))


def _check_kind(model, source):
    """Returns a remark if the frontends differ; raises UserError if the model types or mel bins differ."""
    got, want = source.config, model.config
    if got.model != want.model:
        raise errors.UserError(
            f"{source.path}: model type is {got.model}, expected {want.model}; "
            "choose another --warm_start_from"
        )
    if got.frontend == want.frontend:
        return []
    if got.frontend.num_bins != want.frontend.num_bins:
        raise errors.UserError(
            f"{source.path}: the frontend has {got.frontend.num_bins} mel bins, expected "
            f"{want.frontend.num_bins} as in {model.path}; build the data with that frontend, "
            "or choose another --warm_start_from"
        )
    old, new = map(config_json.to_json_dict, (got.frontend, want.frontend))
    changes = [f"{key} is {new[key]}, but {old[key]} in the source" for key in new if old[key] != new[key]]
    return [f"frontend differs: {', '.join(changes)}"]
