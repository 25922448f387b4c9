"""Downloads of remote shards: a store that fails is tried again for a minute, a damaged copy once."""

from __future__ import annotations

import errno
import os
import time

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info
from tfrecord_builder.storage import files

FULL = (errno.ENOSPC, errno.EDQUOT)
_RETRY_SECONDS = 60
_PAUSE_SECONDS = 2
_MAX_ATTEMPTS = 100  # at a store that always breaks off
_NUM_COPIES = 2


def download(source: str, target: str, num_bytes: int, sha256: str) -> None:
    """Writes a shard over a local file of its size.

    Raises:
        errors.UserError: the shard is not what dataset_info.json says.
        OSError: the store fails for a minute or has no such file, or the file cannot be written.
    """
    for _ in range(_NUM_COPIES):
        _copy(source, target, num_bytes)
        if os.path.getsize(target) == num_bytes and files.sha256(target) == sha256:
            return
        logging.warning("%s: copy has another size or sha256 than %s says", source, dataset_info.INFO_FILE)
    raise errors.UserError(
        f"{source}: shard has another size or sha256 than {dataset_info.INFO_FILE} says; "
        "copy or build the data again"
    )


def _copy(source, target, num_bytes):
    end, attempts = None, 0
    while True:
        os.truncate(target, num_bytes)  # the attempt before may have written more
        with open(target, "r+b") as file:
            try:
                return files.download(source, file)
            except OSError as error:
                attempts += 1
                if end is None or file.tell():  # the minute is that without a byte
                    end = time.monotonic() + _RETRY_SECONDS
                if not _may_pass(error) or time.monotonic() > end or attempts == _MAX_ATTEMPTS:
                    raise
                logging.warning("%s: %s; trying again", source, error.strerror or error)
        time.sleep(_PAUSE_SECONDS)


def _may_pass(error):
    """Returns whether the store may recover; it has no such file, rights or bucket again."""
    lasting = isinstance(error, (FileNotFoundError, PermissionError))
    return not lasting and error.errno not in (errno.ENXIO, *FULL)
