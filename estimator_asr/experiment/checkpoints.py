"""Lists, links and reads the checkpoints of a model directory, and checks that they fit the model.

A checkpoint is identified by its prefix, MODEL_DIR/model.ckpt-<step>: the path of its files without suffixes.
The state file (`checkpoint`, in the same directory) names the checkpoint from which training continues.
"""

from __future__ import annotations

import glob
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import model_directory
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info
from tfrecord_builder.storage import files

STATE_FILE = "checkpoint"
_NAME = re.compile(r"(model\.ckpt-(\d+))\.(index|data-\d{5}-of-\d{5}|meta)")
# Suffix that each optimizer adds to a variable's name to form the name of the variable's slot.
_SLOTS = {"adam": "/Adam", "momentum": "/Momentum"}
_REPLICA = re.compile(r"/replica_\d+$")
_LOSS_SCALE = "loss_scale/scale"


class DamagedError(errors.UserError):
    """Raised if a checkpoint cannot be read."""

    def __init__(self, checkpoint: str, reason: str):
        super().__init__(
            f"{checkpoint}: checkpoint cannot be read ({reason}); choose an earlier one, or run train again, "
            "which continues from the newest readable checkpoint"
        )
        self.reason = reason


def stated(path: str) -> Optional[str]:
    """Returns the prefix in the state file, even if the checkpoint is gone; None without a valid file."""
    try:
        state = tf.train.get_checkpoint_state(path)
    except ValueError:  # the file is empty or is not text
        return None
    return state.model_checkpoint_path if state else None


def find_latest(path: str) -> Optional[str]:
    """Returns the prefix in the state file if the checkpoint exists, otherwise None."""
    prefix = stated(path)
    return prefix if prefix and os.path.exists(f"{prefix}.index") else None


def latest(path: str) -> str:
    """Returns the prefix in the state file; raises errors.UserError if there is no valid state file."""
    checkpoint = stated(path)
    if checkpoint is None:
        raise errors.UserError(
            f"{path} has no checkpoint; train first with python -m estimator_asr.train --model_dir={path}"
        )
    return checkpoint


def latest_step(path: str) -> int:
    """Returns the step of the checkpoint that `find_latest` returns; 0 if there is none."""
    checkpoint = find_latest(path)
    return step_of(checkpoint) if checkpoint else 0


def write_state(path: str, newest: str, others: Sequence[str]) -> None:
    """Makes `newest` the checkpoint from which TensorFlow continues.

    `others` are the prefixes of the checkpoints that the Saver may delete later, oldest first.
    """
    names = [os.path.basename(prefix) for prefix in others]
    # TensorFlow leaves relative names unchanged only if the directory is an absolute path.
    tf.compat.v1.train.update_checkpoint_state(os.path.abspath(path), os.path.basename(newest), names)


def save(values: dict[str, np.ndarray], prefix: str) -> None:
    """Writes a checkpoint with the variables in `values`, and a state file that points to it."""
    names = sorted(values)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = [tf.compat.v1.placeholder(values[name].dtype, values[name].shape) for name in names]
        slices = [""] * len(names)
        write = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=inputs)
        session.run(write, {tensor: values[name] for tensor, name in zip(inputs, names)})
    write_state(os.path.dirname(prefix), prefix, [prefix])


def prefix_of(path: str, step: int) -> str:
    """Returns the prefix of the checkpoint at a step in a directory."""
    return os.path.join(path, f"model.ckpt-{step}")


def step_of(checkpoint: str) -> int:
    """Returns the global step in a checkpoint's name; -1 if the name does not have the usual form."""
    match = _NAME.fullmatch(f"{os.path.basename(checkpoint)}.index")
    return int(match.group(2)) if match else -1


def list_checkpoints(path: str) -> list[str]:
    """Returns the prefixes of all checkpoints that have at least one file, oldest first."""
    matches = filter(None, map(_NAME.fullmatch, os.listdir(path) if os.path.isdir(path) else []))
    return [prefix_of(path, step) for step in sorted({int(match.group(2)) for match in matches})]


def list_files(checkpoint: str) -> list[str]:
    """Returns the sorted paths of a checkpoint's files."""
    paths = glob.glob(f"{glob.escape(checkpoint)}.*")
    return sorted(path for path in paths if _NAME.fullmatch(os.path.basename(path)))


def link(checkpoint: str, directory: str) -> str:
    """Hard-links a checkpoint into a directory where the Saver will not delete it; returns the new prefix.

    The .index file is linked last, so a checkpoint with an .index file is complete. If the file system has no
    hard links, the files are copied. Raises FileNotFoundError if the checkpoint has been deleted.
    """
    index = f"{checkpoint}.index"
    for path in [*(path for path in list_files(checkpoint) if path != index), index]:
        _link_file(path, os.path.join(directory, os.path.basename(path)))
    return os.path.join(directory, os.path.basename(checkpoint))


def _link_file(source, target):
    if os.path.exists(target) and os.path.samefile(source, target):
        return  # renaming a link onto a link to the same file does nothing: the temporary name would remain
    with files.writing(target) as path:
        try:
            os.link(source, path)
        except OSError:
            shutil.copyfile(source, path)


def global_step(checkpoint: str) -> int:
    """Returns the global step stored in a checkpoint."""
    return int(tf.train.load_variable(checkpoint, "global_step"))


def iterate(checkpoint: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and value of each variable, sorted by name.

    Raises DamagedError if a file is missing, truncated or altered; TensorFlow verifies the checksums.
    """
    if not os.path.exists(f"{checkpoint}.index"):
        raise DamagedError(checkpoint, "its .index file is missing")
    try:
        reader = tf.train.load_checkpoint(checkpoint)
        for name in sorted(reader.get_variable_to_shape_map()):
            yield name, np.asarray(reader.get_tensor(name))
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        raise DamagedError(checkpoint, str(error).splitlines()[0]) from error


def read_shapes(checkpoint: str) -> dict[str, list[int]]:
    """Reads all variables, and returns their shapes, keyed by name; raises DamagedError as `iterate` does."""
    return {name: list(value.shape) for name, value in iterate(checkpoint)}


def check(checkpoint: str, model: model_directory.ModelDirectory) -> None:
    """Raises errors.UserError if a checkpoint is damaged, or was trained with another model or vocabulary."""
    shapes, spec = read_shapes(checkpoint), model.config.spec
    if spec.class_variable not in shapes:
        raise errors.UserError(
            f"{checkpoint} has no variable {spec.class_variable}, so it is not a checkpoint of the "
            f"{spec.name} model; pass the model directory to which the checkpoint belongs"
        )
    num_classes = shapes[spec.class_variable][spec.class_axis]
    if num_classes != model.num_classes:
        classes = f"{model.tokens.size} tokens in {dataset_info.TOKENS_FILE} and the blank"
        if model.characters:
            classes = f"{model.characters.size} characters in {dataset_info.CHARACTERS_FILE}"
        raise errors.UserError(
            f"{checkpoint}: the output layer has {num_classes} classes instead of {model.num_classes} "
            f"({classes}), because the checkpoint was trained with another vocabulary; restore that "
            "vocabulary, or train a new model in another --model_dir"
        )


def check_variables(
    checkpoint: Optional[str], model: model_directory.ModelDirectory, variables: Iterable[tf.Variable]
) -> None:
    """Raises errors.UserError if a model variable is missing from a checkpoint or has another shape there.

    Nothing is checked if there is no checkpoint. Only the first replica's variables are saved and checked.
    """
    if checkpoint is None or not os.path.exists(f"{checkpoint}.index"):
        return
    shapes = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    for variable in variables:
        name = variable.name.split(":")[0]
        got, want = shapes.get(name), variable.shape.as_list()
        if got != want and not _REPLICA.search(name):
            problem = "is missing" if got is None else f"has shape {got} instead of {want}"
            raise errors.UserError(
                f"{checkpoint}: variable {name} {problem}, because another version of this program saved the "
                "checkpoint; train a new model in another --model_dir with "
                f"--warm_start_from={model.path}, which copies the weights that fit"
            )


def require_optimizer(checkpoint: str, optimizer: str, precision: str) -> None:
    """Raises errors.UserError if training with `optimizer` and `precision` cannot continue from a checkpoint.

    Training cannot continue if the checkpoint has only weights (as in averaged/), has the state of another
    optimizer, or lacks the loss scale that float16 needs.
    """
    names = {name for name, _ in tf.train.list_variables(checkpoint)}
    advice = f"train a new model in another --model_dir with --warm_start_from={os.path.dirname(checkpoint)}"
    if names.issubset(find_model_variables(names)):
        problem = "weights but no optimizer state, so training cannot continue from it"
    elif not any(name.endswith(_SLOTS[optimizer]) for name in names):
        problem = f"the state of an optimizer other than {optimizer}"
        advice = f"pass the --optimizer that the model was trained with, or {advice}"
    elif precision == "float16" and _LOSS_SCALE not in names:
        problem = "no loss scale, which --precision=float16 needs"
        advice = f"pass the --precision that the model was trained with, or {advice}"
    else:
        return
    raise errors.UserError(f"{checkpoint} contains {problem}; {advice}")


def find_model_variables(names: Iterable[str]) -> list[str]:
    """Returns the sorted names in a checkpoint that belong to the model's variables or the global step.

    The other names belong to slots, which start with a variable's name (a/kernel/Adam), or to the optimizer's
    scalars, which have no scope.
    """
    names = set(names)

    def is_model_variable(name):
        scopes = map(str, pathlib.PurePosixPath(name).parents)
        return name == "global_step" or ("/" in name and names.isdisjoint(scopes))

    return sorted(filter(is_model_variable, names))
