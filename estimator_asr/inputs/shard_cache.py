"""Local copies of remote shards, in a bounded directory that all of a user's processes share.

A copy is named after the shard's sha256 in dataset_info.json. Local shards are not copied.
"""

from __future__ import annotations

import collections
import errno
import functools
import os
import threading
import time
from collections.abc import Iterator

from absl import logging

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import bounded_directory, splits
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, schema
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files, locks

NUM_PARALLEL_FETCHES = 2
_NUM_AHEAD = 2  # number of fetched shards that may wait to be opened
_NUM_HELD = 4  # number of further shards that a reader holds, so that none is removed before it is opened
# The cache must have space for all shards that the readers of train and dev hold or are fetching.
_MIN_SHARDS = 2 * (_NUM_AHEAD + _NUM_HELD + NUM_PARALLEL_FETCHES)
_RETRY_SECONDS = 60
_PAUSE_SECONDS = 2
_MAX_ATTEMPTS = 100  # limit for an object store that sends some data in every attempt but never all of it
_NUM_COPIES = 2  # a damaged copy is downloaded again once


def find_directory(name: str) -> str:
    """Returns the path of a directory in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "estimator_asr", name)


def open_cache(shards: tuple[splits.DataShard, ...], max_gb: float) -> ShardCache:
    """Returns a split's cache, which all epochs and evaluations share.

    Separate caches would hold too many shards. One cache is enough, because a process never reads two epochs
    or evaluations at the same time.
    """
    return _open_cache(shards, max_gb, find_directory("shards"))


@functools.lru_cache(maxsize=4)
def _open_cache(shards, max_gb, directory) -> ShardCache:
    return ShardCache(max_gb)


class ShardCache:
    """Local copies for one reader. Every reader has its own cache, but all caches share one directory.

    The cache holds the shards that it fetched most recently; others may be removed if a download needs space.
    `max_gb` is the maximum size of the directory.
    """

    def __init__(self, max_gb: float = config_lib.InputConfig.shard_cache_gb):
        self.directory = find_directory("shards")
        self._max_gb = max_gb
        self._held: collections.deque[locks.ReadLock] = collections.deque()
        self._guard = threading.Lock()

    def fetch(self, shard: splits.DataShard) -> str:
        """Returns the local path of a shard, after downloading the shard if there is no copy.

        Raises:
            errors.UserError: the object store fails for a minute, the shard does not match dataset_info.json,
                the disk is full or not writable, or `max_gb` is too small.
        """
        if not urls.is_remote(shard.path):
            return shard.path
        self._check_bound(shard)
        path = os.path.join(self.directory, f"{shard.sha256}.tfrecord")
        try:
            os.makedirs(self.directory, exist_ok=True)
            while not self._hold(path):  # tries again if another process has removed the copy
                with locks.exclusive(f"{path}{bounded_directory.LOCK}", is_temporary=True):
                    if not os.path.exists(path):
                        with files.writing(path) as temporary:
                            bounded_directory.reserve(temporary, shard.num_bytes, self._max_gb * 1e9)
                            download(shard, temporary)
        except OSError as error:
            raise self._explain(error, shard) from error
        return path

    def read_records(self, shard: splits.DataShard) -> Iterator[bytes]:
        """Yields a shard's serialised records in order; for the errors, see fetch and schema.read_shard."""
        return schema.read_shard(self.fetch(shard))

    def _check_bound(self, shard):
        needed = _MIN_SHARDS * shard.num_bytes / 1e9
        if needed > self._max_gb:
            raise errors.UserError(
                f"{shard.path}: --shard_cache_gb is {self._max_gb:g}, expected at least {needed:.2g} "
                f"({_MIN_SHARDS} shards of this size); train with a larger --shard_cache_gb, or build the "
                "data with a larger --num_shards"
            )

    def _hold(self, path) -> bool:
        lock = bounded_directory.hold(path)
        if lock is None:
            return False
        with self._guard:
            self._held.append(lock)
            while len(self._held) > _NUM_AHEAD + _NUM_HELD:
                self._held.popleft().release()
        return True

    def _explain(self, error, shard) -> errors.UserError:
        reason = error.strerror or error
        if error.filename == shard.path or urls.is_remote(str(error.filename)):
            return errors.UserError(
                f"{shard.path}: shard cannot be read ({reason}); check the object store and run the command "
                "again"
            )
        if error.errno not in bounded_directory.FULL:
            return errors.UserError(
                f"{self.directory}: copies of remote shards cannot be written ({reason}); set XDG_CACHE_HOME "
                "to a writable directory that supports locks"
            )
        return errors.UserError(
            f"{self.directory}: no space for copies of remote shards ({reason}); free at least "
            f"{shard.num_bytes / 1e6:.0f} MB, or set XDG_CACHE_HOME to another disk"
        )


def download(shard: splits.DataShard, target: str) -> None:
    """Downloads a shard to an existing file; if the copy is damaged, downloads the shard again.

    Raises:
        errors.UserError: the shard's size or sha256 differs from dataset_info.json.
        OSError: the object store fails for a minute or has no such file, or `target` cannot be written.
    """
    wrong = f"does not match the size and sha256 in {dataset_info.INFO_FILE}"
    for _ in range(_NUM_COPIES):
        _copy(shard, target)
        if os.path.getsize(target) == shard.num_bytes and files.sha256(target) == shard.sha256:
            return
        logging.warning("%s: the downloaded copy %s", shard.path, wrong)
    raise errors.UserError(f"{shard.path}: shard {wrong}; copy or build the data again")


def _copy(shard, target):
    """Downloads a shard; after an error, retries until the object store has sent nothing for a minute."""
    end = None
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        os.truncate(target, shard.num_bytes)  # an earlier attempt may have made the file longer
        with open(target, "r+b") as file:
            try:
                return files.download(shard.path, file)
            except OSError as error:
                if end is None or file.tell():
                    end = time.monotonic() + _RETRY_SECONDS
                if not _may_pass(error) or time.monotonic() > end or attempt == _MAX_ATTEMPTS:
                    raise
                logging.warning("%s: %s; trying again", shard.path, error.strerror or error)
        time.sleep(_PAUSE_SECONDS)


def _may_pass(error):
    """Returns False if retrying cannot help: no such file or bucket, no permission, or a full disk."""
    lasting = isinstance(error, (FileNotFoundError, PermissionError))
    return not lasting and error.errno not in (errno.ENXIO, *bounded_directory.FULL)
