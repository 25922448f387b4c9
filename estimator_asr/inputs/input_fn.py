"""The input_fn: turns TFRecords into padded batches of features and labels.

    record index -> record numbers in the epoch's order -> batches from one length bucket each -> (skip)
    -> per-replica batches -> records -> parsed, (masked), padded -> features, labels

In training, epoch e is shuffled with the seed `seed + e`; evaluation takes the records in shard order. An
epoch contains each utterance exactly once and ends with the batches that are not full, so every epoch has the
same number of batches. Padding is zero, or "" for text.
"""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import (
    batch_plan,
    batches,
    buckets,
    input_progress,
    record_index,
    shard_cache,
    splits,
)
from tfrecord_builder.program import cpu, progress_bar

_PREFETCHED_BATCHES = 4
# Use at least 2 threads, because one may wait for the disk, and at most 16, because each holds a batch.
_MIN_THREADS, _MAX_THREADS = 2, 16
_uncompiled = tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would recompile for every batch size


def build_input_fn(
    source: splits.Split,
    config: config_lib.InputConfig,
    *,
    training: bool,
    seed: int = 0,
    start: input_progress.InputPosition = input_progress.START,
    num_replicas: int = 1,
    fixed_shapes: bool = False,
) -> Callable[..., tf.data.Dataset]:
    """Returns the input_fn for an Estimator.

    Args:
        config: batch budget, shuffling and masking.
        training: if True, epochs are endless, shuffled and masked. If False, there is one epoch in shard
            order, and the features include the texts (utterance_id, speaker, transcript, pronunciation).
        seed: the random seed for epoch e is seed + e.
        start: position to resume from.
        num_replicas: total number of replicas on all machines. Each batch is sharded across them, and the
            dataset yields one per-replica batch after another. If the input_fn gets a
            tf.distribute.InputContext, the dataset contains only the batches for this machine's replicas.
        fixed_shapes: if True, all batches from a bucket are padded to one shape (for XLA).

    Returns:
        Function that returns a dataset of (features, labels). features is a dict: token_ids int32 [batch,
        max_tokens] and num_tokens int32 [batch]; likewise character_ids and num_characters; in training, seed
        int64 [2] (seed + epoch, batch index in the epoch); for the acoustic model, fbank float32 [batch,
        max_frames, num_bins] and num_frames int32 [batch]. labels is a dict of target ids and their count.
    """
    bucketing = source.bucket(config, num_replicas)

    @tf.autograph.experimental.do_not_convert  # nothing needs conversion, but checking that takes a second
    def read(own: Sequence[int]) -> tf.data.Dataset:
        first_shard = len(source.shards) * own[0] // num_replicas
        index = record_index.load(source, config, first_shard)
        reader = record_index.RecordReader(source, index, config)

        @_uncompiled
        def finish(position, number, num_rows, rows):
            shard, records = batches.ReplicaRows(number, num_replicas), reader.read(rows)
            features = batches.finish(records, position, shard, num_rows, source, config, training=training)
            if fixed_shapes:
                features = batches.pad_to_fixed_shapes(features, bucketing, source, num_replicas)
            return features, {key: features[key] for key in source.spec.labels}

        planned = batch_plan.plan_batches(index, bucketing, config, seed, start, training)
        replicas = tf.data.Dataset.from_tensor_slices(own)
        sharded = planned.flat_map(functools.partial(_shard, replicas, num_replicas))
        if splits.has_remote(source.shards):
            sharded = reader.open_ahead(sharded)
        finished = sharded.map(finish, num_parallel_calls=count_threads(), deterministic=True)
        return finished.prefetch(_PREFETCHED_BATCHES).with_options(_options(source))

    def input_fn(input_context: Optional[tf.distribute.InputContext] = None):
        # The Estimator looks for an argument named input_context.
        return read(_list_replicas(num_replicas, input_context))

    return input_fn


def count_threads() -> int:
    """Returns the number of threads for reading and parsing: one per core, at least 2 and at most 16."""
    return min(max(cpu.count_cores(), _MIN_THREADS), _MAX_THREADS)


@_uncompiled
def _shard(replicas, num_replicas, position, rows):
    """Splits a batch into a dataset of per-replica batches (position, replica number, batch size, rows)."""

    @_uncompiled
    def take(number):
        return position, number, tf.size(rows), batches.ReplicaRows(number, num_replicas).of(rows)

    return replicas.map(take)


def _list_replicas(num_replicas, input_context):
    """Returns the indices of this machine's replicas."""
    if input_context is None:
        return list(range(num_replicas))
    count = num_replicas // input_context.num_input_pipelines
    first = count * input_context.input_pipeline_id
    return list(range(first, first + count))


def _options(source):
    fetching = shard_cache.NUM_PARALLEL_FETCHES if splits.has_remote(source.shards) else 0
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = count_threads() + fetching
    options.threading.max_intra_op_parallelism = 1
    return options


def read_batch(
    source: splits.Split,
    bucketing: buckets.Bucketing,
    config: config_lib.InputConfig,
    position: Sequence[int],
) -> list[bytes]:
    """Returns the serialised records of a whole training batch (for all replicas) in row order.

    `position` is the batch's features["seed"]: seed + epoch, and the index in the epoch. `bucketing` must be
    the same as in the training run.
    """
    index, (seed, number) = record_index.load(source, config), map(int, position)
    reader = record_index.RecordReader(source, index, config)
    place = input_progress.InputPosition(0, number)

    def build():
        planned = batch_plan.plan_batches(index, bucketing, config, seed, place)
        return planned.take(1).map(lambda _, numbers: reader.read(numbers))

    (records,) = read_elements(build)
    return list(records)


def batch_of(
    records: Sequence[bytes],
    source: splits.Split,
    config: config_lib.InputConfig,
    position: Sequence[int],
    shard: batches.ReplicaRows = batches.WHOLE,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns features and labels of a batch as a replica's model_fn gets them in training.

    `records` are the records of the whole batch, for all replicas. `source` may be a Split made by
    Split.of_records. For `position`, see read_batch.
    """

    def finish(rows):
        place, own = tf.constant(position, tf.int64), shard.of(rows)
        return batches.finish(own, place, shard, len(records), source, config, training=True)

    (features,) = read_elements(lambda: tf.data.Dataset.from_tensors(list(records)).map(finish))
    return features, {key: features[key] for key in source.spec.labels}


def read_sample(
    source: splits.Split, config: config_lib.InputConfig, max_utterances: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches of features for about `max_utterances` utterances, chosen by a hash of their ids.

    A batch contains only the features from build_input_fn that have one row per utterance.
    """
    limit = 2**32 * max_utterances / source.num_utterances
    elements = read_elements(build_input_fn(source, config, training=False))
    with progress_bar.ProgressBar(total=source.num_utterances, unit=" utterances", desc="read") as progress:
        for batch, _ in elements:
            progress.update(len(batch["utterance_id"]))
            is_chosen = [zlib.crc32(name) < limit for name in batch["utterance_id"]]
            if any(is_chosen):
                rows = len(is_chosen)
                yield {name: value[is_chosen] for name, value in batch.items() if len(value) == rows}


def read_elements(build_dataset: Callable[[], tf.data.Dataset]) -> Iterator:
    """Yields the elements of a dataset as NumPy values, without eager execution.

    `build_dataset` is called in a new graph. The dataset runs on the CPU.
    """
    graph = tf.Graph()  # is the default graph only in the next block, not while the caller uses an element
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
