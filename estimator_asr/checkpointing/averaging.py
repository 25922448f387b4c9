"""Averages checkpoints of one training."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from estimator_asr.checkpointing import checkpoints
from tfrecord_builder import errors


def average(prefixes: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the variables of the model, each averaged over the checkpoints.

    Floats (moving averages of batch norm too) are summed in float64 and keep their dtype; all else, such as
    the global step, is taken from the last checkpoint. Variables of the optimizer are left out.

    Args:
        prefixes: checkpoints, oldest first.

    Raises:
        errors.UserError: one is damaged, or differs from the last one in the model's variables.
    """
    shapes = [checkpoints.read_shapes(prefix) for prefix in prefixes]
    names = checkpoints.find_model_variables(shapes[-1])
    for prefix, others in zip(prefixes, shapes):
        if any(others.get(name) != shapes[-1][name] for name in names):
            raise errors.UserError(
                f"{prefix}: has other variables than {prefixes[-1]}, expected the same model; "
                "remove it from best_checkpoints.json"
            )
    readers = [tf.train.load_checkpoint(prefix) for prefix in prefixes]
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
        prefix: of the checkpoint, see checkpoints.prefix_of.
    """
    names = sorted(values)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = [tf.compat.v1.placeholder(values[name].dtype, values[name].shape) for name in names]
        write = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=inputs
        )
        session.run(write, {tensor: values[name] for tensor, name in zip(inputs, names)})
    checkpoints.write_state(os.path.dirname(prefix), prefix, [prefix])
