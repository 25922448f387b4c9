"""Reads one training batch again from its position: features["seed"] of the step that had it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr import task_spec
from estimator_asr.inputs import batches, input_fn, splits
from tfrecord_builder import dataset_info


def read_batch(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    split: str,
    config: config_lib.InputConfig,
    *,
    spec: task_spec.TaskSpec,
    position: Sequence[int],
) -> list[bytes]:
    """Returns the serialised records of a batch, for all replicas together, in the order of its rows.

    Args:
        infos, data_dirs, split, config, spec: as of the training (input_fn.build_input_fn).
        position: seed + epoch, and index in the epoch.
    """
    source = splits.read_split(infos, data_dirs, split, spec)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        epoch = input_fn.read_epoch(source, source.bucket(config), config, int(position[0]))
        batch = epoch.skip(int(position[1])).take(1)
        _, records = tf.compat.v1.data.make_one_shot_iterator(batch).get_next()
        return list(session.run(records))


def batch_of(
    records: Sequence[bytes],
    config: config_lib.InputConfig,
    *,
    spec: task_spec.TaskSpec,
    num_bins: Optional[int],
    fbank_dtype: str,
    position: Sequence[int],
    shard: batches.Shard = batches.WHOLE,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns features and labels of a batch as the model_fn gets them in training.

    Args:
        records: of the whole batch, serialised.
        config: of the masks.
        spec: of the model that reads the batch.
        num_bins, fbank_dtype: of the records (schema.parse_batch).
        position: as for read_batch.
        shard: which replica's rows.
    """
    source = splits.Split(spec, (), {}, 0.0, num_bins, fbank_dtype, 0, "")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        position = tf.constant(position, tf.int64)
        features = batches.finish(tf.constant(records), position, shard, source, config, training=True)
        features = session.run(features)
    return features, {key: features[key] for key in spec.labels}
