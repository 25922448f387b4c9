"""Sources of pretrained weights: our checkpoints, and Whisper."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.checkpointing import checkpoints
from estimator_asr.checkpointing.pretrained import token_rows, weight_files, whisper_weights
from estimator_asr.experiment import experiment, model_directory
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.settings import config_json

_PARENTS = 4  # directories above a checkpoint to search for config.json
_NGRAMS = "language/ngrams"


class WeightSource(NamedTuple):
    """Weights to start with."""

    path: str  # checkpoint or directory
    values: dict[str, np.ndarray]  # weights by our names of variables
    names: dict[str, token_rows.Names]  # names of token rows, by variable
    remarks: tuple[str, ...]  # sentences about what is left out or differs


def open_source(model: model_directory.ModelDirectory) -> WeightSource:
    """Reads the weights that --warm_start_from of the model's config names.

    Raises:
        errors.UserError: they are missing, damaged or non-finite, or belong to another kind of model.
    """
    train = model.config.train
    if _is_whisper(train.warm_start_from):
        source = _open_whisper(model, train.warm_start_from)
    else:
        source = _open_checkpoint(model, train.warm_start_from)
    bad = [name for name, value in source.values.items() if not np.all(np.isfinite(value))]
    if bad:
        raise errors.UserError(
            f"{source.path}: {len(bad)} of {len(source.values)} variables contain NaN or Inf, the first is "
            f"{bad[0]}; choose an earlier checkpoint"
        )
    return source


def find_pretrained(path: Optional[str], num_trained: int) -> Optional[pretrained_encoder.Applied]:
    """Returns the encoder of a Whisper or model directory and the blocks that a model reads of it.

    Args:
        path: None has no encoder.
        num_trained: blocks at its end that are trained too.

    Raises:
        errors.UserError: it is missing or damaged, or has no more blocks than are trained.
    """
    if path is None:
        return None
    if not _is_whisper(path):
        _check_is_checkpoint(path)
        root = find_root(path)
        return experiment.ExperimentConfig.load(root).acoustic.pretrained if root else None
    encoder, _ = whisper_weights.read(path)
    if num_trained >= encoder.layers:
        raise errors.UserError(
            f"train: --trainable_blocks is {num_trained}, expected at most {encoder.layers - 1}, because "
            f"{path} has {encoder.layers} blocks and the model reads one before those that are trained"
        )
    last = encoder.layers - num_trained
    return pretrained_encoder.Applied(encoder, pretrained_encoder.choose_layers(last))


def _check_is_checkpoint(path):
    """Raises UserError for a directory of neither a model nor a whole Whisper model, or no path at all."""
    if os.path.isdir(path) and not checkpoints.find_latest(path):
        whisper_weights.read(path)
    weight_files.find_checkpoint(path)


def find_root(path: str) -> Optional[str]:
    """Returns the model directory of a checkpoint, or the directory itself; None if there is none."""
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    for _ in range(_PARENTS + 1):
        if os.path.exists(os.path.join(directory, experiment.CONFIG_FILE)):
            return directory
        directory = os.path.dirname(os.path.abspath(directory))
    return None


def _is_whisper(path):
    """A model directory has the weights of its frozen encoder beside its own."""
    return whisper_weights.find(path) is not None and not checkpoints.find_latest(path)


def _open_whisper(model, path):
    encoder, tensors = whisper_weights.read(path)
    pretrained = model.config.acoustic.pretrained
    if pretrained is None or pretrained.encoder != encoder:
        raise errors.UserError(
            f"{path}: holds a Whisper encoder, expected one for --encoder={model.config.acoustic.encoder} "
            "and the data; pass --encoder=whisper, or leave out --warm_start_from"
        )
    scope = "acoustic/encoder/pretrained"
    values = {f"{scope}/{name}": value for name, value in whisper_weights.to_variables(tensors).items()}
    return WeightSource(path, values, {}, ())


def _open_checkpoint(model, path):
    checkpoint = weight_files.find_checkpoint(path)
    root = find_root(path)
    if root is None:
        raise errors.UserError(
            f"{path}: {experiment.CONFIG_FILE} is missing beside the checkpoint and above it; pass a "
            "checkpoint inside a model directory"
        )
    source = model_directory.open_model_directory(root)
    remarks = _check_kind(model, source)
    checkpoints.check(checkpoint, source)
    found = dict(checkpoints.iterate(checkpoint))
    values = {name: found[name] for name in checkpoints.find_model_variables(found)}
    if _NGRAMS in values and source.tokens.tokens != model.tokens.tokens:
        del values[_NGRAMS]
        remarks.append(f"{_NGRAMS} is initialised: with other tokens its rows belong to other n-grams")
    return WeightSource(checkpoint, values, token_rows.list_names(source), tuple(remarks))


def _check_kind(model, source):
    """Refuses another kind of model or another number of mel bins; returns remarks on smaller differences."""
    got, want = source.config, model.config
    if got.model != want.model:
        raise errors.UserError(
            f"{source.path}: holds the {got.model} model, expected the {want.model} model; "
            "choose another --warm_start_from"
        )
    if got.frontend == want.frontend:
        return []
    if got.frontend.num_bins != want.frontend.num_bins:
        raise errors.UserError(
            f"{source.path}: frontend has {got.frontend.num_bins} mel bins, expected "
            f"{want.frontend.num_bins} as in {model.path}; build the data with that frontend, "
            "or choose another --warm_start_from"
        )
    old, new = map(config_json.to_json_dict, (got.frontend, want.frontend))
    changes = [f"{key} is {new[key]}, in the source {old[key]}" for key in new if old[key] != new[key]]
    return [f"frontend differs: {', '.join(changes)}"]
