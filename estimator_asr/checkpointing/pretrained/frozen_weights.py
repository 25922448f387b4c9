"""Weights of a frozen encoder, loaded into a graph."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.checkpointing.pretrained import whisper_weights
from estimator_asr.models import frozen_encoder
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder


def load(session: tf.compat.v1.Session, path: str, encoder: pretrained_encoder.PretrainedEncoder) -> None:
    """Loads the weights of a directory into the variables of frozen_encoder.build.

    Raises:
        errors.UserError: as whisper_weights.read, or they are not those of the encoder.
    """
    found, tensors = whisper_weights.read(path)
    if found != encoder:
        raise errors.UserError(
            f"{path}: encoder has weights of sha256 {found.sha256[:12]}, expected {encoder.sha256[:12]}, of "
            "which data and model were made; restore the file"
        )
    values = whisper_weights.to_variables(tensors)
    with session.graph.as_default():
        scope = f"{frozen_encoder.SCOPE}/"
        for variable in tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope):
            value = tf.compat.v1.placeholder(tf.float32, variable.shape)
            session.run(variable.assign(value), {value: values[variable.op.name[len(scope) :]]})
