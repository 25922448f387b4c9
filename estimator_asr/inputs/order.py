"""The order of an epoch's records: shards are shuffled and interleaved, records shuffled within a buffer.

Each record comes exactly once per epoch; the same seed gives the same order on any machine.
"""

from __future__ import annotations

import contextlib
from typing import Optional

import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.inputs import shards, splits
from tfrecord_builder import cpu, schema

# On one core the second thread waits for the disk; each thread holds a batch.
_MIN_THREADS, _MAX_THREADS = 2, 16
_INTERLEAVED_SHARDS = 16
_RECORDS_PER_CHUNK = 64


def count_threads() -> int:
    """Returns how many threads read and parse: one per core that the process may use, from 2 to 16."""
    return min(max(cpu.count_cores(), _MIN_THREADS), _MAX_THREADS)


def read_chunks(source: splits.Split, config: config_lib.InputConfig, seed: Optional[int]) -> tf.data.Dataset:
    """Reads the records of an epoch in chunks; parsing records one by one costs more than what is parsed.

    The seed of the order is int or int64 []; None reads the shards in their order.

    Returns:
        Dataset of (lengths int32 [chunk] in frames or tokens, records string [chunk]).
    """
    key = source.spec.length_key

    def measure(records):
        return schema.parse_lengths(records, key), records

    chunks = _shuffle(source, config, seed).batch(_RECORDS_PER_CHUNK)
    return chunks.map(measure, num_parallel_calls=count_threads(), deterministic=True)


def _shuffle(source, config, seed):
    count = len(source.shards)
    numbers = tf.data.Dataset.range(count)
    if seed is None:
        return _find_files(source, numbers, config).flat_map(tf.data.TFRecordDataset)
    cycle_length = min(count, _INTERLEAVED_SHARDS)
    with _without_graph_seed():
        numbers = numbers.shuffle(count, seed, reshuffle_each_iteration=False)
        files = _find_files(source, numbers, config, cycle_length)
        parallel = dict(num_parallel_calls=min(cycle_length, count_threads()), deterministic=True)
        if shards.has_remote(source.shards):
            parallel = {}  # it would take 32 shards more long before it opens them
        records = files.interleave(tf.data.TFRecordDataset, cycle_length, block_length=1, **parallel)
        return records.shuffle(config.shuffle_records, seed, reshuffle_each_iteration=False)


def _find_files(source, numbers, config, *num_ahead):
    """Returns the local paths; the cache is loaded for remote shards alone."""
    if not shards.has_remote(source.shards):
        return shards.paths(source.shards, numbers)
    from estimator_asr.inputs import shard_cache

    return shard_cache.fetch_ahead(source.shards, numbers, config.shard_cache_gb, *num_ahead)


@contextlib.contextmanager
def _without_graph_seed():
    """tf.data mixes the graph's seed into its own: the Estimator sets one, reading a batch again does not."""
    graph = tf.compat.v1.get_default_graph()
    before, graph.seed = graph.seed, None
    try:
        yield
    finally:
        graph.seed = before
