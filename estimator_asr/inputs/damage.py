"""Explains a damaged shard in one sentence."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence

import tensorflow as tf

from tfrecord_builder import errors, schema


@contextlib.contextmanager
def explain(data_dirs: Sequence[str], split: str) -> Iterator[None]:
    """Turns the error of reading a damaged shard inside the block into one sentence.

    Raises:
        errors.UserError: the checksum of a record, or the size of its features, is wrong.
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        if isinstance(error, tf.errors.InvalidArgumentError) and schema.DAMAGED not in error.message:
            raise
        paths = ",".join(data_dirs)
        verify = shlex.join(["python", "-m", "tfrecord_builder.verify", f"--data_dir={paths}"])
        raise errors.UserError(
            f"{paths}: a shard of split {split} is damaged ({_reason(error.message)}); copy or build the "
            f"data again; {verify} names the shard"
        ) from error


def _reason(message):
    """The line that names the record; TensorFlow may put the traceback of the graph before it."""
    lines = message.splitlines()
    found = (line.strip() for line in lines if schema.DAMAGED in line or " record at " in line)
    return next(found, lines[0])
