"""What TensorFlow says of a damaged shard, in a sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf

from tfrecord_builder import errors, schema


@contextlib.contextmanager
def explain(data_dirs: Sequence[str], split: str) -> Iterator[None]:
    """Turns what reading a damaged shard raises inside the block into one sentence.

    Raises:
        errors.UserError: a record's checksum is wrong, or its features do not have the size that it says.
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        if isinstance(error, tf.errors.InvalidArgumentError) and schema.DAMAGED not in error.message:
            raise
        raise errors.UserError(
            f"{','.join(data_dirs)}: a shard of split {split} is damaged ({error.message.splitlines()[0]}); "
            "copy or build the data again"
        ) from error
