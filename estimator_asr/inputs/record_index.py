"""The record index: the location and length of each record in a split.

With the index, an epoch can be planned without reading data; later, only the needed records are read.

Records are numbered from 0, in shard order. Each shard is read once to index it; the sizes and lengths of its
records are stored in <sha256 of the shard>.<unit>.npy, int32 [2, records].
"""

from __future__ import annotations

import functools
import os
import threading
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import shard_cache, splits
from tfrecord_builder.data import schema
from tfrecord_builder.storage import files

# Maximum number of open shards: batch_plan.py interleaves 16, and some before and after them are open too.
_MAX_OPEN = 48
_NUM_AHEAD = 64  # number of batches whose shards are opened ahead of time


class RecordIndex(NamedTuple):
    """Positions and lengths of all records except those of length 0; needs 16 bytes per record."""

    firsts: np.ndarray  # int64 [shards + 1], index of each shard's first record, then the number of records
    offsets: np.ndarray  # int64 [records], position of the record in its shard, in bytes
    sizes: np.ndarray  # int32 [records], size of the serialised record, in bytes
    lengths: np.ndarray  # int32 [records], length in frames or tokens


def load(source: splits.Split, config: config_lib.InputConfig, first_shard: int = 0) -> RecordIndex:
    """Returns the index of a split; indexes the shards that have no index yet, beginning with `first_shard`.

    Workers that share source.index_dir and begin with different shards divide the work among themselves.
    """
    count = len(source.shards)
    directory = source.index_dir or shard_cache.find_directory("record_index")
    cache = shard_cache.open_cache(source.shards, config.shard_cache_gb)
    columns_by_shard = {}
    for number in np.roll(np.arange(count), -first_shard).tolist():
        shard = source.shards[number]
        path = os.path.join(directory, f"{shard.sha256}.{source.spec.unit}.npy")
        columns = _load(path, shard.num_bytes)
        if columns is None:
            columns = _make(path, cache.read_records(shard), source.spec.length_key)
        columns_by_shard[number] = columns
    return _join([columns_by_shard[number] for number in range(count)])


def _join(columns_by_shard) -> RecordIndex:
    sizes, lengths = np.concatenate(columns_by_shard, axis=1)
    firsts = np.cumsum([0, *(np.count_nonzero(columns[1]) for columns in columns_by_shard)])
    ends = [np.cumsum(columns[0] + np.int64(schema.FRAMING_BYTES)) for columns in columns_by_shard]
    offsets = np.concatenate(ends) - sizes - schema.FRAMING_BYTES
    is_not_empty = lengths > 0  # augmented copies without words have no tokens
    return RecordIndex(firsts, offsets[is_not_empty], sizes[is_not_empty], lengths[is_not_empty])


def _load(path, num_bytes) -> Optional[np.ndarray]:
    """Returns a shard's index, or None if the file is missing or damaged, or contradicts the shard's size."""
    try:
        columns = np.load(path)
        is_whole = (columns[0] + np.int64(schema.FRAMING_BYTES)).sum() == num_bytes
    except (OSError, ValueError, EOFError, IndexError):
        return None
    return columns if is_whole else None


def _make(path, records, length_key) -> np.ndarray:
    directory = os.path.dirname(path)
    logging.log_first_n(logging.INFO, "reading each shard once to index its records in %s", 1, directory)
    rows = [(len(record), schema.count(record, length_key)) for record in records]
    columns = np.array(rows, np.int32).reshape(-1, 2).T
    try:
        os.makedirs(directory, exist_ok=True)
        with files.writing(path) as temporary, open(temporary, "wb") as file:
            np.save(file, columns)
    except OSError as error:
        logging.warning(
            "%s cannot be written (%s); the shard will be read again at the next start", path, error
        )
    return columns


class RecordReader:
    """Reads a split's records by number; several threads may read at the same time."""

    def __init__(self, source: splits.Split, index: RecordIndex, config: config_lib.InputConfig):
        self._shards, self._index = source.shards, index
        self._cache = shard_cache.open_cache(source.shards, config.shard_cache_gb)
        self._fetching = threading.BoundedSemaphore(shard_cache.NUM_PARALLEL_FETCHES)
        self._open = functools.lru_cache(_MAX_OPEN)(self._open_shard)

    def read(self, numbers: tf.Tensor) -> tf.Tensor:
        """Returns the serialised records (string [batch]) with the given numbers (int64 [batch]).

        When the dataset runs, a damaged record, or a remote shard that cannot be fetched, raises
        tf.errors.InvalidArgumentError; see splits.explain_damage.
        """
        return tf.ensure_shape(tf.numpy_function(self._read, [numbers], tf.string), [None])

    def open_ahead(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Returns `dataset`, with shards opened ahead of time; elements must end with record numbers."""

        def fetch(*element):
            opened = tf.numpy_function(self._open_all, element[-1:], tf.int64)
            return (*element[:-1], tf.ensure_shape(opened, [None]))

        parallel = dict(num_parallel_calls=shard_cache.NUM_PARALLEL_FETCHES, deterministic=True)
        return dataset.map(fetch, **parallel).prefetch(_NUM_AHEAD)

    def _open_all(self, numbers):
        for shard in np.unique(self._find_shards(numbers)).tolist():
            self._open(shard)
        return numbers

    def _read(self, numbers):
        records = np.empty(len(numbers), object)
        for row, (number, shard) in enumerate(zip(numbers.tolist(), self._find_shards(numbers).tolist())):
            records[row] = self._read_one(number, shard)
        return records

    def _find_shards(self, numbers):
        return np.searchsorted(self._index.firsts, numbers, side="right") - 1

    def _read_one(self, number, shard) -> bytes:
        offset, size = int(self._index.offsets[number]), int(self._index.sizes[number])
        file = self._open(shard)  # the file is closed when its last reference is gone
        framed = os.pread(file.descriptor, size + schema.FRAMING_BYTES, offset)
        try:
            return schema.unframe(framed, size)
        except ValueError as error:
            where = f"corrupted record at {offset} of {self._shards[shard].path}"
            raise ValueError(f"{schema.DAMAGED}: {where}: {error}") from None

    def _open_shard(self, shard):
        with self._fetching:  # limits the number of unopened copies, which the cache might remove
            return _OpenFile(os.open(self._cache.fetch(self._shards[shard]), os.O_RDONLY))


class _OpenFile:
    """An open file, closed once no thread uses it; the file stays readable even if the cache removes it."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def __del__(self):
        os.close(self.descriptor)
