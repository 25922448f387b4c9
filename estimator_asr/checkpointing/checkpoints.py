"""Checkpoints of a model directory: which there are, whether they can be read, whether they fit the model.

A checkpoint is named by its prefix, MODEL_DIR/model.ckpt-<step>: the path of its files without the ending.
The text file `checkpoint` beside them (the state) says which one TensorFlow continues from.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr import model_directory
from tfrecord_builder import dataset_info, errors

STATE_FILE = "checkpoint"
_NAME = re.compile(r"(model\.ckpt-(\d+))\.(index|data-\d{5}-of-\d{5}|meta)")
# What the optimizer keeps of each variable, below its name.
_SLOTS = {"adam": "/Adam", "momentum": "/Momentum"}
_REPLICA = re.compile(r"/replica_\d+$")
_LOSS_SCALE = "loss_scale/scale"


class DamagedError(errors.UserError):
    """A checkpoint cannot be read."""

    def __init__(self, checkpoint: str, reason: str):
        super().__init__(
            f"{checkpoint}: checkpoint cannot be read ({reason}), expected a whole one; "
            "start the training again, which continues from the newest that can"
        )
        self.reason = reason


def latest(path: str) -> str:
    """Returns the prefix of the checkpoint that the state names.

    Raises:
        errors.UserError: there is none.
    """
    checkpoint = stated(path)
    if checkpoint is None:
        raise errors.UserError(
            f"{path}: there is no checkpoint; "
            f"train first with python -m estimator_asr.train --model_dir={path}"
        )
    return checkpoint


def stated(path: str) -> Optional[str]:
    """Returns the prefix that the state names, whether its files are there or not; None without a state that
    can be read."""
    try:
        state = tf.train.get_checkpoint_state(path)
    except ValueError:  # it is empty, or no text
        return None
    return state.model_checkpoint_path if state else None


def write_state(path: str, newest: str, others: Sequence[str]) -> None:
    """Makes `newest` the checkpoint that TensorFlow continues from; all of them lie in `path`.

    Args:
        path: directory.
        newest: prefix.
        others: prefixes that the Saver may delete in time, oldest first; `newest` among them or not.
    """
    names = [os.path.basename(prefix) for prefix in others]
    # Only below an absolute directory relative names stay what they are.
    tf.compat.v1.train.update_checkpoint_state(os.path.abspath(path), os.path.basename(newest), names)


def prefix_of(path: str, step: int) -> str:
    """Returns the prefix of the checkpoint of that step."""
    return os.path.join(path, f"model.ckpt-{step}")


def step_of(checkpoint: str) -> int:
    """Returns the global step that the name tells; -1 for another kind of name."""
    match = _NAME.fullmatch(f"{os.path.basename(checkpoint)}.index")
    return int(match.group(2)) if match else -1


def list_checkpoints(path: str) -> list[str]:
    """Returns the prefixes of all checkpoints that have any file, oldest first."""
    matches = [_NAME.fullmatch(name) for name in (os.listdir(path) if os.path.isdir(path) else [])]
    return [prefix_of(path, step) for step in sorted({int(match.group(2)) for match in matches if match})]


def list_files(checkpoint: str) -> list[str]:
    """Returns the paths of the files of a checkpoint, sorted."""
    paths = glob.glob(f"{glob.escape(checkpoint)}.*")
    return sorted(path for path in paths if _NAME.fullmatch(os.path.basename(path)))


def global_step(checkpoint: str) -> int:
    """Returns after how many steps of training it was saved."""
    return int(tf.train.load_variable(checkpoint, "global_step"))


def read_shapes(checkpoint: str) -> dict[str, list[int]]:
    """Reads every value, whose checksums TensorFlow compares; returns the shapes by name.

    Raises:
        DamagedError: a file is missing, cut short or changed.
    """
    if not os.path.exists(f"{checkpoint}.index"):
        raise DamagedError(checkpoint, "its .index is not there")
    try:
        reader = tf.train.load_checkpoint(checkpoint)
        return {name: list(np.shape(reader.get_tensor(name))) for name in reader.get_variable_to_shape_map()}
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        raise DamagedError(checkpoint, str(error).splitlines()[0]) from error


def check(checkpoint: str, model: model_directory.ModelDirectory) -> None:
    """Checks that the checkpoint's output has the classes of the model's vocabulary.

    Raises:
        errors.UserError: it has not; names both sizes and why. Or its files are damaged.
    """
    shapes = read_shapes(checkpoint)
    name, axis = model.config.spec.class_variable, model.config.spec.class_axis
    if name not in shapes:
        raise errors.UserError(
            f"{checkpoint}: has no variable {name}, expected a checkpoint of the {model.config.model} model; "
            "give the model directory that it belongs to"
        )
    if shapes[name][axis] != model.num_classes:
        raise errors.UserError(
            f"{checkpoint}: output has {shapes[name][axis]} classes, expected {model.num_classes} "
            f"({_describe_classes(model)}), because it was trained with another vocabulary; "
            "restore the vocabulary that belongs to it, or train a new --model_dir"
        )


def check_variables(
    checkpoint: Optional[str], model: model_directory.ModelDirectory, variables: Iterable[tf.Variable]
) -> None:
    """Checks that the checkpoint has a value of its shape for each variable.

    Args:
        checkpoint: its prefix; None or one whose files are gone: nothing is checked.
        model: that it was saved for.
        variables: of the model; of several replicas the first one's are saved.

    Raises:
        errors.UserError: names the first that does not fit.
    """
    if checkpoint is None or not os.path.exists(f"{checkpoint}.index"):
        return
    shapes = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    for variable in variables:
        name = variable.name.split(":")[0]
        got, want = shapes.get(name), variable.shape.as_list()
        if got != want and not _REPLICA.search(name):
            found = "is not there" if got is None else f"has shape {got}"
            raise errors.UserError(
                f"{checkpoint}: {name} {found}, expected shape {want}, because another version of this "
                f"program saved it; train a new --model_dir, which --warm_start_from={model.path} gives the "
                "weights that fit"
            )


def require_optimizer(checkpoint: str, optimizer: str, precision: str) -> None:
    """Checks that training can continue from the checkpoint.

    Args:
        checkpoint: its prefix.
        optimizer, precision: of this run, as the flags name them.

    Raises:
        errors.UserError: it holds the weights alone, as that of averaged/ does, or the state of another
            optimizer, or no loss scale for float16.
    """
    names = {name for name, _ in tf.train.list_variables(checkpoint)}
    anew = f"start a new --model_dir with --warm_start_from={os.path.dirname(checkpoint)}."
    if names.issubset(find_model_variables(names)):
        raise errors.UserError(
            f"{checkpoint}: holds weights without the state of the optimizer, expected both to "
            f"continue; {anew}"
        )
    if not any(name.endswith(_SLOTS[optimizer]) for name in names):
        raise errors.UserError(
            f"{checkpoint}: holds the state of another optimizer, expected that of --optimizer={optimizer}; "
            f"give the optimizer that it was trained with, or {anew}"
        )
    if precision == "float16" and _LOSS_SCALE not in names:
        raise errors.UserError(
            f"{checkpoint}: was trained without a loss scale, expected one for --precision=float16; "
            f"leave the precision as it was, or {anew}"
        )


def find_model_variables(names: Iterable[str]) -> list[str]:
    """Returns the names of the model's variables and the global step, sorted, of all names of a checkpoint.

    A slot of the optimizer is named below its variable (a/kernel/Adam); its scalars stand in no scope.
    """
    known = set(names)
    return sorted(n for n in known if n == "global_step" or ("/" in n and not _is_slot(n, known)))


def _is_slot(name, known):
    parts = name.split("/")
    return any("/".join(parts[:count]) in known for count in range(1, len(parts)))


def _describe_classes(model):
    if model.characters:
        return f"{model.characters.size} characters in {dataset_info.CHARACTERS_FILE}"
    return f"{model.tokens.size} tokens in {dataset_info.TOKENS_FILE} and the blank"
