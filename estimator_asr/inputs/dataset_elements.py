"""Elements of a tf.data.Dataset as numpy values, for programs without eager execution."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf


def read(build_dataset: Callable[[], tf.data.Dataset]) -> Iterator:
    """Yields the elements of a dataset; runs on the CPU, in a graph of its own.

    Args:
        build_dataset: called inside that graph.
    """
    graph = tf.Graph()  # not the default one while the caller uses an element
    with graph.as_default(), tf.device("/cpu:0"):
        element = tf.compat.v1.data.make_one_shot_iterator(build_dataset()).get_next()
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with contextlib.closing(tf.compat.v1.Session(graph=graph, config=config)) as session:
        while True:
            try:
                values = session.run(element)
            except tf.errors.OutOfRangeError:
                return
            yield values
