"""The mean of several checkpoints of one training, as a checkpoint of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from estimator_asr.checkpointing import checkpoints
from tfrecord_builder import errors


def average(prefixes: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the variables of the model, each the mean over the checkpoints.

    Floats (moving averages of batch norm too) are added up in float64 and keep their dtype; all else, as the
    global step, is from the last checkpoint. What belongs to the optimizer is left out.

    Args:
        prefixes: checkpoints, oldest first.

    Raises:
        errors.UserError: one cannot be read, or has other variables than the last one.
    """
    shapes = [checkpoints.read_shapes(prefix) for prefix in prefixes]
    readers = [tf.train.load_checkpoint(prefix) for prefix in prefixes]
    names = checkpoints.find_model_variables(shapes[-1])
    for prefix, others in zip(prefixes, shapes):
        if any(others.get(name) != shapes[-1][name] for name in names):
            raise errors.UserError(
                f"{prefix}: has other variables than {prefixes[-1]}, expected the same model; "
                "remove it from best_checkpoints.json"
            )
    return {name: _mean([reader.get_tensor(name) for reader in readers]) for name in names}


def _mean(values):
    newest = np.asarray(values[-1])
    if newest.dtype.kind != "f":
        return newest
    return np.mean(np.stack(values), axis=0, dtype=np.float64).astype(newest.dtype)


def save(values: dict[str, np.ndarray], prefix: str) -> None:
    """Writes a checkpoint and the state beside it.

    Args:
        values: variables by name.
        prefix: path without ending, as checkpoints.prefix_of gives it.
    """
    names = sorted(values)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = [tf.compat.v1.placeholder(values[name].dtype, values[name].shape) for name in names]
        write = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=inputs
        )
        session.run(write, {tensor: values[name] for tensor, name in zip(inputs, names)})
    checkpoints.write_state(os.path.dirname(prefix), prefix, [prefix])
