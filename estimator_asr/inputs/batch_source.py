"""Reads one training batch again from its position: features["seed"] of the step that had it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.inputs import batches, dataset_elements, input_fn, splits


def read_batch(source: splits.Split, config: config_lib.InputConfig, position: Sequence[int]) -> list[bytes]:
    """Returns the serialised records of a batch, for all replicas together, in the order of its rows.

    Args:
        source: the split.
        config: of the training.
        position: seed + epoch, and index in the epoch.
    """

    def build():
        epoch = input_fn.read_epoch(source, source.bucket(config), config, int(position[0]))
        return epoch.skip(int(position[1])).take(1)

    ((_, records),) = dataset_elements.read(build)
    return list(records)


def batch_of(
    records: Sequence[bytes],
    source: splits.Split,
    config: config_lib.InputConfig,
    position: Sequence[int],
    shard: batches.Shard = batches.WHOLE,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns features and labels of a batch as the model_fn gets them in training.

    Args:
        records: of the whole batch, serialised.
        source: of the records; Split.of_records is enough.
        config: of the training.
        position: as for read_batch.
        shard: the rows of a replica.
    """

    def finish(records):
        return batches.finish(records, tf.constant(position, tf.int64), shard, source, config, training=True)

    (features,) = dataset_elements.read(lambda: tf.data.Dataset.from_tensors(list(records)).map(finish))
    return features, {key: features[key] for key in source.spec.labels}
