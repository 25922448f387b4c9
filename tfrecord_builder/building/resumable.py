"""Writes the shards of a run one by one, so that an interrupted run continues with the missing shards.

When a shard FILE is completely on the disk, FILE.json is written next to it and marks it as finished.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, Optional, Protocol

from tfrecord_builder import errors
from tfrecord_builder.program import config_json
from tfrecord_builder.program import lazy_tensorflow as tf
from tfrecord_builder.storage import files

# Called with the number of utterances done, which may be fractional, and the number rejected.
OnProgress = Callable[[float, int], None]


class WorkUnit(Protocol):
    """A file to write, made from a number of items; the unit of work of engines."""

    file: str
    num_items: int


@dataclasses.dataclass
class ShardReceipt:
    """The contents of the JSON file of a shard.

    fingerprint: hash of everything that the shard depends on.
    rejected: [utterance_id, split, reason, audio] of each utterance that was left out.
    notes: lines that the launching process prints on standard error when the shard is finished.
    """

    file: str = ""
    num_records: int = 0
    num_bytes: int = 0
    sha256: str = ""
    fingerprint: str = ""
    rejected: list = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def save(self, path: str) -> None:
        files.write_text(path, json.dumps(vars(self)))

    @classmethod
    def load(cls, path: str) -> ShardReceipt:
        return cls(**config_json.parse(files.read_text(path)))


@dataclasses.dataclass(frozen=True)
class UnitWriter:
    """Writes shards into a directory. Subclasses implement fingerprint and make, and can be pickled.

    Attributes:
        written_type: Written or a subclass of it.
        libraries: further packages whose versions must be the same on all workers (see engines/tasks.py).
    """

    directory: str
    written_type = ShardReceipt
    libraries = ()
    item = "utt"  # unit of the progress bar

    def fingerprint(self, shard: Any) -> str:
        """Returns the hash of everything that a shard depends on."""
        raise NotImplementedError

    def make(self, shard: Any, path: str, on_progress: OnProgress) -> ShardReceipt:
        """Writes a shard to a path; returns its receipt, except for size and hashes."""
        raise NotImplementedError

    def find_finished(self, shard: Any) -> Optional[ShardReceipt]:
        """Returns the receipt of a finished shard, or None; reads its JSON file, but not the shard."""
        try:
            receipt = self.written_type.load(self.json_path(shard))
            num_bytes, _ = files.size_and_time(os.path.join(self.directory, shard.file))
        except (FileNotFoundError, ValueError, TypeError, AttributeError):  # truncated, or of another version
            return None
        is_same = receipt.fingerprint == self.fingerprint(shard)
        return receipt if is_same and receipt.num_bytes == num_bytes else None

    def write(self, shard: Any, on_progress: OnProgress) -> ShardReceipt:
        """Writes a shard and its JSON file, each completely or not at all; a disk error is a UserError."""
        try:
            return self.replace(shard, on_progress)
        except Exception as error:  # not Ctrl-C, which may come while TensorFlow is being imported
            explain_refusal(self.directory, shard.file, error)
            raise

    def replace(self, shard: Any, on_progress: OnProgress) -> ShardReceipt:
        """Writes a shard as `write` does, but raises disk errors unchanged."""
        with contextlib.suppress(FileNotFoundError):
            files.remove(self.json_path(shard))  # otherwise it would mark the new, partial shard as finished
        with files.writing(os.path.join(self.directory, shard.file)) as temporary:
            receipt = self.make(shard, temporary, on_progress)
            receipt.num_bytes, receipt.sha256 = os.path.getsize(temporary), files.sha256(temporary)
            files.sync(temporary)
        receipt.fingerprint = self.fingerprint(shard)
        receipt.save(self.json_path(shard))
        return receipt

    def json_path(self, shard: Any) -> str:
        return os.path.join(self.directory, f"{shard.file}.json")


def explain_refusal(directory: str, file: str, error: Exception) -> None:
    """Raises UserError if the error means that the disk or store could not write a file of the directory."""
    if isinstance(error, errors.UserError) or not isinstance(error, (OSError, tf.errors.OpError)):
        return
    reason = error.strerror if isinstance(error, OSError) else error.message
    path = getattr(error, "filename", None)
    if isinstance(path, str) and not path.startswith(directory):  # a unit may write other files elsewhere
        directory, file = os.path.split(path)
    # Raised here, neither in a context manager nor from a variable of the caller: either would make a
    # reference cycle with its frames. CPython 3.12.1 crashes when it collects such a cycle with the message
    # of a broken pipe.
    raise errors.UserError(
        f"{directory}: {file} cannot be written ({reason}); "
        "free some space or fix the permissions, then run the same command again: finished work is kept."
    ) from error


def open_session(graph: tf.Graph) -> tf.compat.v1.Session:
    """Returns a session on one CPU thread: its results do not depend on the number of workers and cores."""
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=1,
        use_per_session_threads=True,
        device_count={"GPU": 0},
    )
    return tf.compat.v1.Session(graph=graph, config=options)


def hash_json(values: list) -> str:
    """Returns the SHA-256 hex digest of values that JSON can represent."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
