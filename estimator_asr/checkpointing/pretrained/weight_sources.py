"""Weights to start with, under our names and with the tokens of their rows; read from our checkpoints."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr import experiment, model_directory
from estimator_asr.checkpointing import checkpoints
from estimator_asr.checkpointing.pretrained import token_rows, weight_files
from tfrecord_builder import config_json, errors

_PARENTS = 4  # of a checkpoint that its model directory is looked for in; MODEL/export/best/N/variables
_NGRAMS = "language/ngrams"


class WeightSource(NamedTuple):
    """Weights to start with.

    Attributes:
        path: checkpoint or file.
        values: by our names of variables.
        names: of variables whose rows or columns belong to tokens.
        remarks: sentences about what is left out or differs.
    """

    path: str
    values: dict[str, np.ndarray]
    names: dict[str, token_rows.Names]
    remarks: tuple[str, ...]


def open_checkpoint(model: model_directory.ModelDirectory, path: str) -> WeightSource:
    """Reads a checkpoint of another model directory, the newest one if the path is the directory.

    Raises:
        errors.UserError: it is missing, damaged, or of another kind of model or number of bins.
    """
    checkpoint = weight_files.find_checkpoint(path)
    root = find_root(path)
    if root is None:
        raise errors.UserError(
            f"{path}: there is no {experiment.CONFIG_FILE} beside the checkpoint or above it, which says "
            "whose weights they are; give a checkpoint inside a model directory"
        )
    source = model_directory.open_model_directory(root)
    remarks = _check_kind(model, source)
    checkpoints.check(checkpoint, source)
    found = weight_files.read_checkpoint(checkpoint)
    values = {name: found[name] for name in checkpoints.find_model_variables(found)}
    if _NGRAMS in values and source.tokens.tokens != model.tokens.tokens:
        del values[_NGRAMS]
        remarks.append(f"{_NGRAMS} starts anew: with other tokens its rows stand for other n-grams")
    return WeightSource(checkpoint, values, token_rows.list_names(source), tuple(remarks))


def check_finite(source: WeightSource) -> None:
    """Raises errors.UserError if a weight is no number."""
    bad = [name for name, value in source.values.items() if not np.all(np.isfinite(value))]
    if bad:
        raise errors.UserError(
            f"{source.path}: {bad[0]} has values that are no numbers, as {len(bad)} of {len(source.values)} "
            "variables, expected numbers; give an older checkpoint"
        )


def find_root(path: str) -> Optional[str]:
    """Returns the model directory that a directory is or a checkpoint lies in; None if it has none."""
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    for _ in range(_PARENTS + 1):
        if os.path.exists(os.path.join(directory, experiment.CONFIG_FILE)):
            return directory
        directory = os.path.dirname(os.path.abspath(directory))
    return None


def _check_kind(model, source):
    """Refuses another kind of model or another number of bins; gives remarks on lesser differences."""
    got, want = source.config, model.config
    if got.model != want.model:
        raise errors.UserError(
            f"{source.path}: holds the {got.model} model, expected the {want.model} model; "
            "give another --warm_start_from"
        )
    if got.frontend == want.frontend:
        return []
    if got.frontend.num_bins != want.frontend.num_bins:
        raise errors.UserError(
            f"{source.path}: frontend has {got.frontend.num_bins} bins, expected {want.frontend.num_bins} as "
            f"in {model.path}; build the data with the frontend of {source.path}, or give another "
            "--warm_start_from"
        )
    return [f"frontend differs: {_differences(got.frontend, want.frontend)}"]


def _differences(got, want):
    got, want = config_json.to_json_dict(got), config_json.to_json_dict(want)
    return ", ".join(
        f"{key} is {want[key]}, in the source {got[key]}" for key in want if got[key] != want[key]
    )
