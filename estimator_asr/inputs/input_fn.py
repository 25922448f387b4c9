"""The input_fn: turns TFRecords into padded batches of features and labels.

    record index -> record numbers in the epoch's order -> batches from one length bucket each -> (skip)
    -> per-replica batches -> records -> parsed, (masked), padded -> features, labels

Evaluation needs no index: it reads the records themselves, in shard order.

Epoch e is shuffled with the seed `seed + e`. It contains each utterance exactly once and ends with the
batches that are not full, so every epoch has the same number of batches. Padding is zero, or "" for text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import batches, buckets, input_progress, order, record_index, shard_cache, splits
from tfrecord_builder.program import progress_bar

_PREFETCHED_BATCHES = 4


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
    """Returns the input_fn of an Estimator.

    Args:
        config: batch budget, shuffling and masking.
        training: if True, endless epochs, shuffled and masked; if False, one epoch in shard order, with the
            texts (utterance_id, speaker, transcript, pronunciation) among the features.
        seed: the random seed for epoch e is seed + e.
        start: position to resume from.
        num_replicas: number of replicas on all machines together. Each batch is sharded across them, and the
            dataset yields one per-replica batch after another. If the input_fn gets a
            tf.distribute.InputContext, the dataset has only the batches for this machine's replicas.
        fixed_shapes: if True, all batches from a bucket are padded to one shape (for XLA).

    Returns:
        Function that returns a dataset of (features, labels). features is a dict: token_ids int32 [batch,
        max_tokens] and num_tokens int32 [batch]; likewise character_ids and num_characters; in training, seed
        int64 [2] (seed + epoch, batch index in the epoch); for the acoustic model, fbank float32 [batch,
        max_frames, num_bins] and num_frames int32 [batch]. labels is a dict of target ids and their number.
    """
    bucketing = source.bucket(config, num_replicas)
    pipeline = _Pipeline(source, config, bucketing, training, seed, start, num_replicas, fixed_shapes)

    def input_fn(input_context: Optional[tf.distribute.InputContext] = None):
        return pipeline.read(input_context)  # the Estimator looks for an argument named input_context

    return input_fn


@dataclasses.dataclass(frozen=True)
class _Pipeline:
    """The stages of an input_fn; the fields are build_input_fn's arguments and the resulting buckets."""

    source: splits.Split
    config: config_lib.InputConfig
    bucketing: buckets.Bucketing
    training: bool
    seed: int
    start: input_progress.InputPosition
    num_replicas: int
    fixed_shapes: bool

    @tf.autograph.experimental.do_not_convert  # nothing needs conversion, but checking takes a second
    def read(self, input_context: Optional[tf.distribute.InputContext]) -> tf.data.Dataset:
        own = _list_shards(self.num_replicas, input_context)
        planned, reader = self._plan(own) if self.training else (self._read_in_order(), None)
        sharded = planned.flat_map(
            functools.partial(_shard, tf.data.Dataset.from_tensor_slices(own), self.num_replicas)
        )
        if reader and splits.has_remote(self.source.shards):
            sharded = reader.open_ahead(sharded)
        finish = functools.partial(self._finish, reader)
        finished = sharded.map(finish, num_parallel_calls=order.count_threads(), deterministic=True)
        return finished.prefetch(_PREFETCHED_BATCHES).with_options(_options(self.source))

    def _plan(self, own):
        """Returns a dataset of batches (as record numbers) from `start` on, and a reader for the records."""
        first_shard = len(self.source.shards) * own[0] // self.num_replicas
        index = record_index.load(self.source, self.config, first_shard)
        planned = order.plan_batches(index, self.bucketing, self.config, self.seed, self.start)
        return planned, record_index.RecordReader(self.source, index, self.config)

    def _read_in_order(self):
        """Returns a dataset of batches: position (int64 [2], always 0) and records (string [batch])."""
        bucket_ends = self.bucketing.bucket_ends
        sizes = self.bucketing.batch_sizes

        def to_buckets(lengths, records):
            return tf.searchsorted(tf.constant(bucket_ends), lengths, out_type=tf.int64), records

        batched = (
            order.read_chunks(self.source, self.config)
            .map(to_buckets)
            .unbatch()
            .group_by_window(
                lambda bucket, record: bucket,
                lambda bucket, window: window.map(lambda _, record: record).batch(max(sizes)),
                window_size_func=lambda bucket: tf.gather(tf.constant(sizes, tf.int64), bucket),
            )
        )
        return batched.map(lambda records: (tf.zeros([2], tf.int64), records))

    @tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would recompile for each number of rows
    def _finish(self, reader, position, number, num_rows, rows):
        """Returns a per-replica batch (features, labels); `rows` are record numbers if `reader` is set."""
        source, shard = self.source, batches.ReplicaRows(number, self.num_replicas)
        records = reader.read(rows) if reader else rows
        features = batches.finish(
            records, position, shard, num_rows, source, self.config, training=self.training
        )
        if self.fixed_shapes:
            features = batches.pad_to_fixed_shapes(features, self.bucketing, source, self.num_replicas)
        return features, {key: features[key] for key in source.spec.labels}


@tf.xla.experimental.jit_scope(compile_ops=False)
def _shard(own, num_replicas, position, rows):
    """Splits a batch into a dataset of per-replica batches (position, replica number, batch size, rows)."""

    @tf.xla.experimental.jit_scope(compile_ops=False)
    def take(number):
        return position, number, tf.size(rows), batches.ReplicaRows(number, num_replicas).of(rows)

    return own.map(take)


def _list_shards(num_replicas, input_context):
    """Returns the numbers of this machine's replicas."""
    if input_context is None:
        return list(range(num_replicas))
    count = num_replicas // input_context.num_input_pipelines
    return list(range(input_context.input_pipeline_id * count, (input_context.input_pipeline_id + 1) * count))


def _options(source):
    fetching = shard_cache.NUM_PARALLEL_FETCHES if splits.has_remote(source.shards) else 0
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = order.count_threads() + fetching
    options.threading.max_intra_op_parallelism = 1
    return options


def read_batch(
    source: splits.Split,
    bucketing: buckets.Bucketing,
    config: config_lib.InputConfig,
    position: Sequence[int],
) -> list[bytes]:
    """Returns the serialised records of a whole training batch (for all replicas) in row order.

    `position` is the batch's features["seed"]: seed + epoch, and index in the epoch. `bucketing` must be
    that of the training run.
    """
    index, (seed, number) = record_index.load(source, config), map(int, position)
    reader = record_index.RecordReader(source, index, config)
    place = input_progress.InputPosition(0, number)

    def build():
        planned = order.plan_batches(index, bucketing, config, seed, place)
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

    `records` are those of the whole batch, for all replicas. `source` may be a Split made by
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

    A batch has only those features of build_input_fn that have one row per utterance.
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

    `build_dataset` is called in a graph of its own. The dataset runs on the CPU.
    """
    graph = tf.Graph()  # the default graph only in the next block, not while the caller uses an element
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
