"""Reads summaries from event files."""

import os
import pathlib
from collections.abc import Iterator

import tensorflow as tf


def read_values(directory: str | os.PathLike) -> Iterator[tuple[int, tf.compat.v1.Summary.Value]]:
    """Yields the step and value of each summary in a directory, starting with the oldest event file."""
    for path in sorted(pathlib.Path(directory).glob("events.out.tfevents.*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            yield from ((event.step, value) for value in event.summary.value)


def read_scalars(directory: str | os.PathLike, tag: str) -> dict[int, float]:
    """Returns the values of a scalar by step; a later event file replaces an earlier one."""
    return {step: to_number(value) for step, value in read_values(directory) if value.tag == tag}


def to_number(value: tf.compat.v1.Summary.Value) -> float:
    return tf.make_ndarray(value.tensor).item() if value.HasField("tensor") else value.simple_value
