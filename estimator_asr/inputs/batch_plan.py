"""Plans the batches of an epoch: lists each batch's records by their numbers in the record index.

In training, shards are shuffled and interleaved, then record numbers are shuffled in a buffer. Evaluation
takes one shard after another. Each record occurs exactly once per epoch, and the same seed gives the same
order on any machine.
"""

from __future__ import annotations

import contextlib

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import buckets, input_progress, record_index

_INTERLEAVED_SHARDS = 16
_uncompiled = tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would recompile for every batch size


def plan_batches(
    index: record_index.RecordIndex,
    bucketing: buckets.Bucketing,
    config: config_lib.InputConfig,
    seed: int,
    start: input_progress.InputPosition,
    training: bool = True,
) -> tf.data.Dataset:
    """Plans the batches of endless epochs, beginning at `start`; epoch e is shuffled with seed `seed + e`.

    If `training` is False, plans a single epoch in shard order.

    Returns:
        Dataset of (position, record numbers): position is int64 [2], seed + epoch and the batch's index in
        the epoch; the record numbers are int64 [batch].
    """

    def cut_epoch(numbers):
        return numbers, *cut(bucketing, index.lengths[numbers])

    def plan(epoch):
        numbers = tf.data.Dataset.range(len(index.lengths))
        if training:
            numbers = _shuffle(index.firsts, config, seed + epoch)
        whole = numbers.batch(len(index.lengths))
        return whole.map(lambda numbers: (epoch, *tf.numpy_function(cut_epoch, [numbers], [tf.int64] * 4)))

    @_uncompiled
    def list_batches(epoch, numbers, rows, begins, ends):
        @_uncompiled
        def take(i):
            return tf.stack([seed + epoch, i]), tf.gather(numbers, rows[begins[i] : ends[i]])

        first = tf.where(tf.equal(epoch, start.epoch), tf.constant(start.index, tf.int64), 0)
        return tf.data.Dataset.range(first, bucketing.batches_per_epoch).map(take)

    num_epochs = tf.int64.max if training else 1
    epochs = tf.data.Dataset.range(start.epoch, num_epochs).flat_map(plan)
    return epochs.prefetch(1).flat_map(list_batches)  # the next epoch is planned during this one


def cut(bucketing: buckets.Bucketing, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts an epoch's records into batches, in the order in which they become full; small batches come last.

    `lengths`, int32 [records], has the lengths of the records in the order of the epoch.

    Returns:
        (rows, begins, ends), all int64: batch i consists of the records rows[begins[i] : ends[i]].
    """
    bucket = np.searchsorted(bucketing.bucket_ends, lengths).astype(np.int16)  # int16 sorts in linear time
    rows = np.argsort(bucket, kind="stable")
    counts = np.bincount(bucket, minlength=len(bucketing.batch_sizes))
    bounds = []
    for stop, number, size in zip(np.cumsum(counts), counts, bucketing.batch_sizes):
        begins = np.arange(stop - number, stop, size)
        bounds.append([begins, np.minimum(begins + size, stop), np.full_like(begins, size)])
    begins, ends, sizes = np.concatenate(bounds, axis=1)
    full_at = np.where(ends - begins == sizes, rows[ends - 1], len(rows))
    order = np.argsort(full_at, kind="stable")
    return rows, begins[order], ends[order]


def _shuffle(firsts, config, seed):
    """Returns a dataset of the shuffled record numbers, int64 []; shard i begins with record firsts[i]."""
    count, firsts = len(firsts) - 1, tf.constant(firsts)
    with _without_graph_seed():
        order = tf.data.Dataset.range(count).shuffle(count, seed, reshuffle_each_iteration=False)
        numbers = order.interleave(
            lambda shard: tf.data.Dataset.range(firsts[shard], firsts[shard + 1]),
            cycle_length=min(count, _INTERLEAVED_SHARDS),
            block_length=1,
        )
        return numbers.shuffle(config.shuffle_records, seed, reshuffle_each_iteration=False)


@contextlib.contextmanager
def _without_graph_seed():
    """Hides the graph's seed from tf.data, because the Estimator sets one but read_batch does not."""
    graph = tf.compat.v1.get_default_graph()
    before, graph.seed = graph.seed, None
    try:
        yield
    finally:
        graph.seed = before
