"""A batch of training once more, from its position alone: what `seed` among its features says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.inputs import batches, input_fn, input_progress, splits
from tfrecord_builder import dataset_info


def read_batch(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    split: str,
    config: config_lib.InputConfig,
    *,
    model: str,
    seed: int,
    position: Sequence[int],
    history: Sequence[input_progress.Stretch] = (),
) -> list[bytes]:
    """Returns the serialised records of a batch, for all replicas together, in the order of its rows.

    Args:
        infos, data_dirs, split, config, model, seed: as of the training (input_fn.build_input_fn).
        position: seed + epoch, and index in the epoch.
        history: of the model directory (stretches.load), where batches changed their size inside an epoch.
    """
    source = splits.read_split(infos, data_dirs, split, model)
    epoch, index = int(position[0]) - seed, int(position[1])
    plan, place = input_progress.find(history, epoch, index, splits.plan_batches(source, config))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        read = input_fn.read_epoch(source, plan, config, int(position[0]), taken=place.taken)
        _, records = tf.compat.v1.data.make_one_shot_iterator(read.skip(place.made).take(1)).get_next()
        return list(session.run(records))


def batch_of(
    records: Sequence[bytes],
    config: config_lib.InputConfig,
    *,
    model: str,
    num_bins: Optional[int],
    fbank_dtype: str,
    position: Sequence[int],
    part: batches.Part = batches.WHOLE,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns features and labels of a batch as the model_fn gets them in training.

    Args:
        records: of the whole batch, serialised.
        config: of the masks.
        model: "acoustic" or "language".
        num_bins, fbank_dtype: of the records (schema.parse_batch).
        position: as for read_batch.
        part: which replica's.
    """
    source = splits.Split(model, (), {}, 0.0, num_bins, fbank_dtype, 0, "")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        position = tf.constant(position, tf.int64)
        features = batches.finish(tf.constant(records), position, part, source, config, training=True)
        features = session.run(features)
    return features, {key: features[key] for key in batches.LABELS[model]}
