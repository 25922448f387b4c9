"""Trials: training steps on a few batches in memory, without Estimator, checkpoints or hooks.

A step is the training step that the model_fn builds; its metrics are the scalars that TensorBoard shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import estimator_api, model_directory
from estimator_asr.training import model_fn
from estimator_asr.training import plan as plan_lib

# Features and labels as the model_fn receives them: arrays, or placeholders for arrays.
Batch = tuple[Mapping[str, Any], Mapping[str, Any]]


class Trial:
    """The graph of a training step, with a session in which the variables are initialised."""

    def __init__(self, session: tf.compat.v1.Session, inputs: Batch, train_op: tf.Operation):
        self.session = session
        self.train_op = train_op
        self._inputs = inputs
        self._summary = tf.compat.v1.summary.merge_all()

    def step(self, batch: Batch, fetches: Any = ()) -> Any:
        """Runs one training step; returns the values of the fetches."""
        return self.session.run([self.train_op, fetches], feeds(self._inputs, batch))[1]

    def step_with_metrics(self, batch: Batch) -> dict[str, float]:
        """Runs one training step; returns its metrics, keyed by tag, as they were before the update."""
        values = tf.compat.v1.Summary.FromString(self.step(batch, self._summary)).value
        return {value.tag: value.simple_value for value in values if value.HasField("simple_value")}


def placeholders(batch: Batch) -> Batch:
    """Returns placeholders for batches like `batch`, with unknown batch size and lengths, as in training."""
    return tuple(
        {key: _placeholder(f"{kind}/{key}", array) for key, array in part.items()}
        for kind, part in zip(("features", "labels"), batch)
    )


def _placeholder(name, array):
    shape = [None] * array.ndim
    if name == "features/seed":
        shape = list(array.shape)
    elif name == "features/fbank":
        shape[-1] = array.shape[-1]
    return tf.compat.v1.placeholder(array.dtype, shape, name)


def feeds(inputs: Batch, batch: Batch) -> dict[tf.Tensor, np.ndarray]:
    """Returns a feed_dict for a session: the placeholders of `inputs` mapped to the batch's arrays."""
    return {tensor: values[key] for part, values in zip(inputs, batch) for key, tensor in part.items()}


@contextlib.contextmanager
def start_trial(
    model: model_directory.ModelDirectory, batch: Batch, session_config: tf.compat.v1.ConfigProto
) -> Iterator[Trial]:
    """Yields a trial of a new model for batches like `batch`; does not write to the model directory.

    For the learning-rate schedule, every batch is an epoch.
    """
    plan = plan_lib.one_utterance(model.config.spec)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=session_config) as session:
        tf.compat.v1.set_random_seed(model.config.train.seed)
        tf.compat.v1.train.create_global_step()
        inputs = placeholders(batch)
        built = model_fn.build_model_fn(model, plan)(*inputs, estimator_api.ModeKeys.TRAIN)
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        yield Trial(session, inputs, built.train_op)
