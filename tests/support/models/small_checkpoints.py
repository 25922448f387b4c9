"""Checkpoints of a few numbers, whole or damaged."""

import os
import pathlib

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import checkpoints


def save(model_dir, step, values=None, **more) -> str:
    """Writes a checkpoint with a global step and makes it the newest; returns its prefix."""
    os.makedirs(model_dir, exist_ok=True)
    prefix = checkpoints.prefix_of(str(model_dir), step)
    checkpoints.save({"global_step": np.int64(step), **(values or {"x": np.float32([step])}), **more}, prefix)
    checkpoints.write_state(str(model_dir), prefix, checkpoints.list_checkpoints(str(model_dir)))
    return prefix


def continue_from(model_dir) -> float:
    """Returns the value of x in the checkpoint that a Saver restores from the directory."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.get_variable("x", [1])
        tf.compat.v1.train.Saver().restore(session, tf.train.latest_checkpoint(str(model_dir)))
        return float(session.run(x)[0])


def read_weights(model_dir) -> dict[str, np.ndarray]:
    """Returns the variables of the newest checkpoint in a directory by name."""
    return dict(checkpoints.iterate(checkpoints.latest(str(model_dir))))


def cut(path) -> None:
    os.truncate(path, os.path.getsize(path) // 2)


def flip(path, place=0) -> None:
    content = bytearray(pathlib.Path(path).read_bytes())
    content[place] ^= 1
    pathlib.Path(path).write_bytes(content)


DAMAGES = {
    "index cut": lambda prefix: cut(f"{prefix}.index"),
    "index empty": lambda prefix: os.truncate(f"{prefix}.index", 0),
    "index missing": lambda prefix: os.remove(f"{prefix}.index"),
    "data cut": lambda prefix: cut(f"{prefix}.data-00000-of-00001"),
    "data empty": lambda prefix: os.truncate(f"{prefix}.data-00000-of-00001", 0),
    "data changed": lambda prefix: flip(f"{prefix}.data-00000-of-00001"),
    "data missing": lambda prefix: os.remove(f"{prefix}.data-00000-of-00001"),
}
