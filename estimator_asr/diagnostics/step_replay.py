"""A training step once more on one batch: its loss, its gradient, and where numbers end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.checkpointing import checkpoints
from estimator_asr.diagnostics import tensor_search
from estimator_asr.tasks import registry
from estimator_asr.training.optimizer import optimization
from tfrecord_builder import errors


class Replay(NamedTuple):
    """What came out.

    Attributes:
        loss: per label.
        gradient_norm: before clipping.
        finding: None if both are numbers.
        utterance_losses: of each row as a batch of its own, per label.
    """

    loss: float
    gradient_norm: float
    finding: Optional[tensor_search.Finding]
    utterance_losses: list[float]


def replay(
    model: model_directory.ModelDirectory,
    checkpoint: str,
    features: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
) -> Replay:
    """Runs forward and backward as in training, in float32, with the weights of the checkpoint.

    Args:
        model: settings and vocabularies.
        checkpoint: prefix of a checkpoint of the model.
        features, labels: of the batch, by key, as the model_fn gets them; features["seed"] is its position.

    Raises:
        errors.UserError: the checkpoint cannot be read, or is of another model.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = {"features": features, "labels": labels}
        placeholders = {name: _placeholders(name, arrays) for name, arrays in inputs.items()}
        forward = registry.of(model.config).forward(model, *placeholders.values(), True)
        loss = forward.losses.average()
        gradients = [g for g in tf.gradients(loss, tf.compat.v1.trainable_variables()) if g is not None]
        gradients = [optimization.merge_rows(gradient) for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        _restore(session, checkpoint)
        feeds = _feeds(placeholders, inputs)
        values = session.run([loss, norm], feeds)
        size = len(features["num_tokens"])
        targets = [loss, *(g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients)]
        finding = tensor_search.find(session, targets, feeds, size)
        alone = [session.run(loss, _feeds(placeholders, _row(inputs, row))) for row in range(size)]
        return Replay(*map(float, values), finding, [float(value) for value in alone])


def _placeholders(kind, arrays):
    """Shapes are unknown but for the bins, as in training."""
    made = {}
    for key, array in arrays.items():
        shape = list(array.shape) if key == "seed" else [None] * array.ndim
        shape = [None, None, array.shape[2]] if key == "fbank" else shape
        made[key] = tf.compat.v1.placeholder(array.dtype, shape, f"{kind}/{key}")
    return made


def _feeds(placeholders, inputs):
    return {placeholders[name][key]: inputs[name][key] for name in inputs for key in inputs[name]}


def _row(inputs, row):
    return {
        name: {key: array if key == "seed" else array[row : row + 1] for key, array in arrays.items()}
        for name, arrays in inputs.items()
    }


def _restore(session, checkpoint):
    try:
        checkpoints.read_shapes(checkpoint)
        tf.compat.v1.train.Saver().restore(session, checkpoint)
    except (checkpoints.DamagedError, tf.errors.OpError, ValueError) as error:
        reason = getattr(error, "reason", "it is of another model")
        raise errors.UserError(
            f"{checkpoint}: checkpoint cannot be read ({reason}), expected weights of the model directory "
            "above it; give a nan directory as training wrote it"
        ) from error
