"""Weights as they lie in files: TensorFlow checkpoints, and Keras HDF5 files of both layouts.

`model.save` puts the layers under the group model_weights, `save_weights` at the root; both list the layers
in the attribute layer_names and the weights of each in weight_names, in their order.
"""

from __future__ import annotations

import os
import re
from typing import Optional

import numpy as np
import tensorflow as tf

from tfrecord_builder import errors

_PART_OF_CHECKPOINT = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")


def read(path: str) -> tuple[str, dict[str, np.ndarray]]:
    """Reads a Keras file, a checkpoint, or the newest checkpoint of a directory.

    Returns:
        What was read, and its weights by name.

    Raises:
        errors.UserError: there is no such file, or it cannot be read.
    """
    if is_keras(path):
        return path, read_keras(path)
    checkpoint = find_checkpoint(path)
    return checkpoint, read_checkpoint(checkpoint)


def is_keras(path: str) -> bool:
    """Whether the path is a file that is no part of a checkpoint."""
    return os.path.isfile(path) and not _PART_OF_CHECKPOINT.search(path)


def find_checkpoint(path: str) -> str:
    """Returns the prefix of a checkpoint: of the newest in a directory, or of the one that the path names.

    Raises:
        errors.UserError: there is none.
    """
    prefix = newest_checkpoint(path) if os.path.isdir(path) else _PART_OF_CHECKPOINT.sub("", path)
    if prefix is None:
        raise errors.UserError(
            f"{path}: there is no checkpoint, expected one; train it first with "
            f"python -m estimator_asr.train --model_dir={path}, or name a checkpoint in it"
        )
    if not os.path.exists(f"{prefix}.index"):
        raise errors.UserError(
            f"{path}: there is no such model directory, checkpoint or Keras .h5 file; give one that is there"
        )
    return prefix


def newest_checkpoint(directory: str) -> Optional[str]:
    """Returns the prefix of the checkpoint that the directory's file `checkpoint` names; None without one."""
    try:
        return tf.train.latest_checkpoint(directory)
    except ValueError:  # the file is empty
        return None


def read_checkpoint(prefix: str) -> dict[str, np.ndarray]:
    """Reads all numeric variables of a checkpoint, sorted by name.

    Raises:
        errors.UserError: its files are damaged or missing.
    """
    try:
        reader = tf.train.load_checkpoint(prefix)
        types = reader.get_variable_to_dtype_map()
        names = sorted(name for name, dtype in types.items() if dtype.is_floating or dtype.is_integer)
        return {name: np.asarray(reader.get_tensor(name)) for name in names}
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        raise errors.UserError(
            f"{prefix}: checkpoint cannot be read ({str(error).splitlines()[0]}), expected a whole one; "
            "give an older one of its directory, or copy it again"
        ) from error


def read_keras(path: str) -> dict[str, np.ndarray]:
    """Reads the weights of a Keras HDF5 file, named layer/weight, in the order of the layers.

    Raises:
        errors.UserError: the file is no whole HDF5 file, or holds no weights.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            weights = _read_layers(file["model_weights"] if "model_weights" in file else file)
    except (OSError, KeyError, RuntimeError) as error:
        raise errors.UserError(
            f"{path}: cannot be read as HDF5 ({str(error).splitlines()[0]}), expected a whole .h5 file "
            "of Keras; copy it again, or save it with model.save_weights('FILE.h5')"
        ) from error
    if not weights:
        raise errors.UserError(
            f"{path}: holds no weights of layers, expected a file of Keras' model.save or save_weights; "
            "give the file with the trained model"
        )
    return weights


def _read_layers(group):
    weights = {}
    for layer in _texts(group.attrs.get("layer_names", ())):
        for name in _texts(group[layer].attrs.get("weight_names", ())):
            weights[name.removesuffix(":0")] = np.asarray(group[layer][name])
    return weights


def _texts(names):
    return [name.decode("utf-8") if isinstance(name, bytes) else str(name) for name in names]
