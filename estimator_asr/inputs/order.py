"""The order of an epoch's records: shards are shuffled and interleaved, then records shuffled in a buffer.

Each record occurs exactly once per epoch, and the same seed gives the same order on any machine. Training
shuffles record numbers, not the records themselves. Evaluation reads one shard after another.
"""

from __future__ import annotations

import contextlib

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import buckets, input_progress, record_index, shard_cache, splits
from tfrecord_builder.data import schema
from tfrecord_builder.program import cpu

# There are at least 2 threads, as one may wait for the disk; at most 16, as each holds a batch in memory.
_MIN_THREADS, _MAX_THREADS = 2, 16
_INTERLEAVED_SHARDS = 16
_RECORDS_PER_CHUNK = 64
_uncompiled = tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would recompile for each number of rows


def count_threads() -> int:
    """Returns the number of threads for reading and parsing: one per available core, within 2 to 16."""
    return min(max(cpu.count_cores(), _MIN_THREADS), _MAX_THREADS)


def read_chunks(source: splits.Split, config: config_lib.InputConfig) -> tf.data.Dataset:
    """Reads a split in shard order, in chunks of records, which are cheaper to parse than single records.

    Returns:
        Dataset of (lengths int32 [chunk], in frames or tokens; records string [chunk]).
    """
    key, numbers = source.spec.length_key, tf.data.Dataset.range(len(source.shards))
    paths = shard_cache.fetch_ahead(source.shards, numbers, config.shard_cache_gb)
    chunks = paths.flat_map(tf.data.TFRecordDataset).batch(_RECORDS_PER_CHUNK)

    def parse(records):
        lengths = schema.parse_lengths(records, key)
        is_not_empty = lengths > 0  # augmented copies without words have no tokens
        return tf.boolean_mask(lengths, is_not_empty), tf.boolean_mask(records, is_not_empty)

    return chunks.map(
        parse,
        num_parallel_calls=count_threads(),
        deterministic=True,
    )


def plan_batches(
    index: record_index.RecordIndex,
    bucketing: buckets.Bucketing,
    config: config_lib.InputConfig,
    seed: int,
    start: input_progress.InputPosition,
) -> tf.data.Dataset:
    """Plans training batches from `start` on, in endless epochs; epoch e is shuffled with seed + e.

    Returns:
        Dataset of (position int64 [2]: seed + epoch, index in the epoch; record numbers int64 [batch]).
    """

    def cut(numbers):
        return numbers, *buckets.cut(bucketing, index.lengths[numbers])

    def plan(epoch):
        shuffled = _shuffle(index, config, seed + epoch)
        return shuffled.map(lambda numbers: (epoch, *tf.numpy_function(cut, [numbers], [tf.int64] * 4)))

    @_uncompiled
    def list_batches(epoch, numbers, rows, begins, ends):
        @_uncompiled
        def take(i):
            return tf.stack([seed + epoch, i]), tf.gather(numbers, rows[begins[i] : ends[i]])

        first = tf.where(tf.equal(epoch, start.epoch), tf.constant(start.index, tf.int64), 0)
        return tf.data.Dataset.range(first, bucketing.batches_per_epoch).map(take)

    epochs = tf.data.Dataset.range(start.epoch, tf.int64.max).flat_map(plan)
    return epochs.prefetch(1).flat_map(list_batches)  # the next epoch is planned during this one


def _shuffle(index, config, seed):
    """Returns a dataset with one element: the shuffled numbers of all records, int64 [records]."""
    count, firsts = len(index.firsts) - 1, tf.constant(index.firsts)
    with _without_graph_seed():
        order = tf.data.Dataset.range(count).shuffle(count, seed, reshuffle_each_iteration=False)
        numbers = order.interleave(
            lambda shard: tf.data.Dataset.range(firsts[shard], firsts[shard + 1]),
            cycle_length=min(count, _INTERLEAVED_SHARDS),
            block_length=1,
        )
        numbers = numbers.shuffle(config.shuffle_records, seed, reshuffle_each_iteration=False)
    return numbers.batch(len(index.lengths))


@contextlib.contextmanager
def _without_graph_seed():
    """Hides the graph's seed from tf.data, because the Estimator sets one but read_batch does not."""
    graph = tf.compat.v1.get_default_graph()
    before, graph.seed = graph.seed, None
    try:
        yield
    finally:
        graph.seed = before
