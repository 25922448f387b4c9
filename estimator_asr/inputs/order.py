"""The order in which an epoch shows the records of a split: shards shuffled, read side by side, and records
shuffled within a window. Each record comes once an epoch; the same seed gives the same order."""

from __future__ import annotations

import contextlib
import os
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.inputs import splits
from tfrecord_builder import schema

LENGTH_KEYS = {"acoustic": "num_frames", "language": "num_tokens"}
# On one core the second thread waits for the disk; each thread holds a batch.
_FEWEST_THREADS, _MOST_THREADS = 2, 16
_SHARDS_READ_AT_ONCE = 16
_RECORDS_A_CHUNK = 64


def count_threads() -> int:
    """Returns how many threads read and parse: one per core that the process may use, from 2 to 16."""
    return min(max(len(os.sched_getaffinity(0)), _FEWEST_THREADS), _MOST_THREADS)


def read_chunks(source: splits.Split, shuffle_records: int, seed: Optional[int]) -> tf.data.Dataset:
    """Reads an epoch, some records at a time: what is done for each alone costs more than what is in a text.

    Args:
        source: which shards.
        shuffle_records: records that the shuffle chooses from.
        seed: of the order, int or int64 []; None gives the order of the shards.

    Returns:
        Dataset of (places int64 [chunk] in this order, lengths int32 [chunk] in frames or tokens, records
        string [chunk]).
    """
    chunks = _shuffled(source, shuffle_records, seed).enumerate().batch(_RECORDS_A_CHUNK)
    key = LENGTH_KEYS[source.model]

    def measure(places, records):
        return places, schema.parse_lengths(records, key), records

    return chunks.map(measure, num_parallel_calls=count_threads(), deterministic=True)


def read_lengths(source: splits.Split, shuffle_records: int, seed: int) -> np.ndarray:
    """Returns int32 [num_utterances], the lengths of an epoch's records in its order; reads all of them."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        chunks = read_chunks(source, shuffle_records, seed).map(lambda places, lengths, records: lengths)
        chunk = tf.compat.v1.data.make_one_shot_iterator(chunks).get_next()
        parts = []
        while True:
            try:
                parts.append(session.run(chunk))
            except tf.errors.OutOfRangeError:
                return np.concatenate(parts)


def _shuffled(source, shuffle_records, seed):
    files = tf.data.Dataset.from_tensor_slices(list(source.paths))
    if seed is None:
        return files.flat_map(tf.data.TFRecordDataset)
    cycle_length = min(len(source.paths), _SHARDS_READ_AT_ONCE)
    with _without_graph_seed():
        files = files.shuffle(len(source.paths), seed, reshuffle_each_iteration=False)
        records = files.interleave(
            tf.data.TFRecordDataset,
            cycle_length,
            block_length=1,
            num_parallel_calls=min(cycle_length, count_threads()),
            deterministic=True,
        )
        return records.shuffle(shuffle_records, seed, reshuffle_each_iteration=False)


@contextlib.contextmanager
def _without_graph_seed():
    """tf.data mixes the graph's seed into its own: the Estimator sets one, a replay does not."""
    graph = tf.compat.v1.get_default_graph()
    before, graph.seed = graph.seed, None
    try:
        yield
    finally:
        graph.seed = before
