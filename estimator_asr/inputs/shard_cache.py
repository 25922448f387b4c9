"""Local copies of remote shards, in a bounded directory that all processes of a machine share.

A copy is named by its sha256, which dataset_info.json has.
"""

from __future__ import annotations

import collections
import functools
import os
import threading
from collections.abc import Sequence

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import bounded_directory, shard_download
from estimator_asr.inputs import shards as shards_lib
from estimator_asr.inputs.shards import Shard
from tfrecord_builder import errors
from tfrecord_builder.storage import files, locks

# Shards that wait until they are opened.
_NUM_AHEAD = 2
# Shards that a reader holds besides those that wait: none may be removed before it is opened.
_NUM_HELD = 4
# Those of the train split and of dev.
_MIN_SHARDS = 2 * (_NUM_AHEAD + _NUM_HELD + shards_lib.NUM_PARALLEL_FETCHES)
_MAX_GB = config_lib.InputConfig.shard_cache_gb


def fetch_ahead(
    shards: Sequence[Shard], numbers: tf.data.Dataset, max_gb: float = _MAX_GB
) -> tf.data.Dataset:
    """Returns the local paths of shards, which are fetched while those before them are read.

    Args:
        shards: of the split.
        numbers: int64 [], the order in which they are read.
        max_gb: as for ShardCache.

    Returns:
        Dataset of string []. Its errors have the sentence of a UserError, see splits.explain_damage.
    """
    if not shards_lib.has_remote(shards):
        return shards_lib.paths(shards, numbers)
    cache = open_cache(tuple(shards), max_gb)

    @tf.autograph.experimental.do_not_convert
    def fetch(number):
        return tf.ensure_shape(tf.numpy_function(lambda i: cache.fetch(shards[i]), [number], tf.string), [])

    fetched = numbers.map(fetch, num_parallel_calls=shards_lib.NUM_PARALLEL_FETCHES, deterministic=True)
    return fetched.prefetch(_NUM_AHEAD)


def open_cache(shards: tuple[Shard, ...], max_gb: float) -> ShardCache:
    """Returns one cache for the epochs and evaluations of a split: with one each, all would hold shards.

    They may share its window because a process reads them one after the other.
    """
    return _open_cache(shards, max_gb, _find_directory())


@functools.lru_cache(maxsize=4)
def _open_cache(shards: tuple[Shard, ...], max_gb: float, directory: str) -> ShardCache:
    return ShardCache(max_gb)


def _find_directory() -> str:
    return shards_lib.find_cache("shards")


class ShardCache:
    """The copies that one reader uses. Every reader has its own cache; all share the directory.

    The last shards that it fetched stay there; others are removed when a download needs space.

    Args:
        max_gb: bound of the directory.
        num_ahead: number of shards that the reader fetches before it opens them.
    """

    def __init__(self, max_gb: float = _MAX_GB, num_ahead: int = _NUM_AHEAD):
        self.directory = _find_directory()
        self._max_gb, self._num_ahead = max_gb, num_ahead
        self._held: collections.deque[locks.ReadLock] = collections.deque()
        self._guard = threading.Lock()

    def fetch(self, shard: Shard) -> str:
        """Returns the local path of a shard, which is downloaded unless it is there.

        Raises:
            errors.UserError: the store fails for a minute, the shard is not what dataset_info.json says, the
                disk is full or cannot be written, or the bound too small.
        """
        if not files.is_remote(shard.path):
            return shard.path
        self._check_bound(shard)
        path = os.path.join(self.directory, f"{shard.sha256}.tfrecord")
        try:
            os.makedirs(self.directory, exist_ok=True)
            while not self._hold(path):  # again if another process has removed it
                with locks.in_turn(f"{path}{bounded_directory.LOCK}"):
                    if not os.path.exists(path):
                        self._download(shard, path)
        except OSError as error:
            raise self._explain(error, shard) from error
        return path

    def _check_bound(self, shard):
        needed = _MIN_SHARDS * shard.num_bytes / 1e9
        if needed > self._max_gb:
            raise errors.UserError(
                f"{shard.path}: --shard_cache_gb is {self._max_gb:g}, expected at least {needed:.2g} "
                f"({_MIN_SHARDS} such shards); train with a larger --shard_cache_gb, or build the data "
                "with more --num_shards"
            )

    def _hold(self, path) -> bool:
        lock = bounded_directory.hold(path)
        if lock is None:
            return False
        with self._guard:
            self._held.append(lock)
            while len(self._held) > self._num_ahead + _NUM_HELD:
                self._held.popleft().release()
        return True

    def _download(self, shard, path):
        with files.writing(path) as temporary:
            bounded_directory.reserve(temporary, shard.num_bytes, self._max_gb * 1e9)
            shard_download.download(shard.path, temporary, shard.num_bytes, shard.sha256)

    def _explain(self, error, shard) -> errors.UserError:
        if error.filename == shard.path or files.is_remote(str(error.filename)):
            return errors.UserError(
                f"{shard.path}: shard cannot be read ({error.strerror or error}), expected a working store; "
                "check it and run the command again"
            )
        reason = error.strerror or error
        if error.errno not in shard_download.FULL:
            return errors.UserError(
                f"{self.directory}: copies of remote shards cannot be written ({reason}); set XDG_CACHE_HOME "
                "to a directory that can be written and locked"
            )
        return errors.UserError(
            f"{self.directory}: no space for copies of remote shards ({reason}), expected "
            f"{shard.num_bytes / 1e6:.0f} MB more; free some space, or set XDG_CACHE_HOME to another disk"
        )
