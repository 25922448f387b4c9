"""What TensorBoard shows of a training step."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf


def write_scalars(values: Mapping[str, tf.Tensor]) -> None:
    """Adds one scalar summary per tag; the tag is shown as it is, whatever scope is open."""
    with tf.compat.v1.name_scope(None):
        for tag, value in values.items():
            tf.compat.v1.summary.scalar(tag, value)
