"""Weight files: TensorFlow checkpoints and Keras HDF5 files.

`model.save` puts the layers into the group model_weights, `save_weights` into the root. Both list the layers
in the attribute layer_names, and the weights of each layer in its attribute weight_names. A file named
*.weights.h5 has neither: Keras numbers the layers of each class and their weights (layers/dense_1/vars/0).
"""

from __future__ import annotations

import os
import re

import numpy as np

from estimator_asr.checkpointing import checkpoints
from tfrecord_builder import errors
from tfrecord_builder.storage import files

_CHECKPOINT_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")


def read(path: str) -> tuple[str, dict[str, np.ndarray]]:
    """Returns the path of a Keras file or checkpoint (the newest of a directory), and its weights by name.

    Raises errors.UserError if the file is missing or damaged.
    """
    if is_keras(path):
        return path, read_keras(path)
    checkpoint = find_checkpoint(path)
    values = checkpoints.iterate(checkpoint)
    return checkpoint, {name: value for name, value in values if value.dtype.kind not in "OSU"}


def is_keras(path: str) -> bool:
    """Returns whether the path is a file, but not one of a checkpoint."""
    return os.path.isfile(path) and not _CHECKPOINT_SUFFIX.search(path)


def find_checkpoint(path: str) -> str:
    """Returns the prefix of the newest checkpoint of a directory, or of the checkpoint that the path names.

    Raises errors.UserError if there is none, or it is in an object store.
    """
    if files.is_remote(path):
        raise errors.UserError(f"{path}: is in an object store, {files.EXPECTED_LOCAL}")
    if os.path.isdir(path):
        return checkpoints.latest(path)
    if is_keras(path):
        raise errors.UserError(
            f"{path}: is not a TensorFlow checkpoint; pass a model directory, or a checkpoint in one"
        )
    prefix = _CHECKPOINT_SUFFIX.sub("", path)
    if not os.path.exists(f"{prefix}.index"):
        raise errors.UserError(
            f"{path}: does not exist, expected a model directory, checkpoint or Keras .h5 file"
        )
    return prefix


def read_keras(path: str) -> dict[str, np.ndarray]:
    """Reads the weights of a Keras HDF5 file, named layer/weight, in the order of the layers.

    Raises errors.UserError if the file is damaged, not HDF5, or has no weights or none with names.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            _refuse_numbers(file, path)
            weights = dict(_read_layers(file["model_weights"] if "model_weights" in file else file))
    except (OSError, KeyError, RuntimeError) as error:
        raise errors.UserError(
            f"{path}: cannot be read as HDF5 ({str(error).splitlines()[0]}), expected a complete Keras .h5 "
            "file; copy it again, or save it with model.save('FILE.h5')"
        ) from error
    if not weights:
        raise errors.UserError(
            f"{path}: has no layer weights, expected a file written by Keras' model.save('FILE.h5'); "
            "pass the file of the trained model"
        )
    return weights


def _refuse_numbers(file, path):
    if "layer_names" not in file.attrs and "layers" in file:
        raise errors.UserError(
            f"{path}: numbers its weights, as Keras does in *.weights.h5, expected their names; "
            "load it into its model in Keras, and write model.save('FILE.h5')"
        )


def _read_layers(group):
    for layer in _decode(group.attrs.get("layer_names", ())):
        for name in _decode(group[layer].attrs.get("weight_names", ())):
            yield name.removesuffix(":0"), np.asarray(group[layer][name])


def _decode(names):
    return [name.decode("utf-8") if isinstance(name, bytes) else str(name) for name in names]
