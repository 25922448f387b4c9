"""The shards of a split; remote ones are read through shard_cache. Also the cache directory of the user."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import tensorflow as tf

from tfrecord_builder.data import dataset_info
from tfrecord_builder.storage import files

NUM_PARALLEL_FETCHES = 2  # of remote ones


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard of a data directory, with its size and hash in dataset_info.json."""

    path: str
    num_bytes: int
    sha256: str


def list_shards(info: dataset_info.DatasetInfo, data_dir: str, split: str) -> list[Shard]:
    """Returns the shards of a split; raises errors.UserError as info.shard_paths does."""
    paths = info.shard_paths(data_dir, split)
    return [Shard(path, each.num_bytes, each.sha256) for path, each in zip(paths, info.splits[split].shards)]


def has_remote(shards: Sequence[Shard]) -> bool:
    """Returns whether some of the shards are in a store."""
    return any(files.is_remote(shard.path) for shard in shards)


def find_cache(name: str) -> str:
    """Returns a directory of this user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "estimator_asr", name)


def paths(shards: Sequence[Shard], numbers: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the paths of local shards, string [], in the order of `numbers`, int64 []."""
    return numbers.map(lambda number: tf.gather([shard.path for shard in shards], number))
