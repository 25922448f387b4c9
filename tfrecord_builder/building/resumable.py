"""Writes the shards of a run independently, so that an interrupted run can continue with the missing shards.

As soon as a shard FILE is complete, FILE.json is written next to it, which marks the shard as finished.
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

# Called with two counts of utterances: processed so far (may be fractional) and rejected so far.
OnProgress = Callable[[float, int], None]


class WorkUnit(Protocol):
    """A unit of work that engines run: a file to write, and the number of items to process for it."""

    file: str
    num_items: int


@dataclasses.dataclass
class ShardReceipt:
    """The contents of a shard's JSON file.

    Attributes:
        fingerprint: hash of everything that the shard depends on.
        rejected: [utterance_id, split, reason, audio] for each utterance that was left out.
        notes: lines that the launching process prints to standard error once the shard is finished.
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
    """Picklable base class for shard writers. Subclasses implement fingerprint and make.

    Attributes:
        written_type: ShardReceipt or a subclass of it.
        libraries: additional packages that must have the same version on all workers (see engines/tasks.py).
    """

    directory: str
    written_type = ShardReceipt
    libraries = ()
    item = "utt"  # what the progress bar counts

    def fingerprint(self, shard: Any) -> str:
        """Returns the hash of everything that a shard depends on."""
        raise NotImplementedError

    def make(self, shard: Any, path: str, on_progress: OnProgress) -> ShardReceipt:
        """Writes a shard to `path`; returns a receipt whose num_bytes, sha256 and fingerprint are not set."""
        raise NotImplementedError

    def find_finished(self, shard: Any) -> Optional[ShardReceipt]:
        """Returns a finished shard's receipt, or None if the shard is unfinished; does not read the shard."""
        try:
            receipt = self.written_type.load(self.json_path(shard))
            num_bytes, _ = files.size_and_time(os.path.join(self.directory, shard.file))
        except (FileNotFoundError, ValueError, TypeError, AttributeError):  # missing, partial or incompatible
            return None
        is_same = receipt.fingerprint == self.fingerprint(shard)
        return receipt if is_same and receipt.num_bytes == num_bytes else None

    def write(self, shard: Any, on_progress: OnProgress) -> ShardReceipt:
        """Writes a shard and its JSON file, each atomically; raises UserError if the disk fails."""
        try:
            return self.replace(shard, on_progress)
        except Exception as error:  # excludes Ctrl-C, after which TensorFlow may be only partly imported
            explain_refusal(self.directory, shard.file, error)
            raise

    def replace(self, shard: Any, on_progress: OnProgress) -> ShardReceipt:
        """Writes a shard as `write` does, but raises disk errors unchanged."""
        with contextlib.suppress(FileNotFoundError):
            files.remove(self.json_path(shard))  # a stale JSON file could mark a partial shard as finished
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
    """Raises UserError if `error` means that a file could not be written to the disk or object store."""
    if isinstance(error, errors.UserError) or not isinstance(error, (OSError, tf.errors.OpError)):
        return
    reason = error.strerror if isinstance(error, OSError) else error.message
    path = getattr(error, "filename", None)
    if isinstance(path, str) and not path.startswith(directory):  # a unit may write other files elsewhere
        directory, file = os.path.split(path)
    # Raised here, not in a context manager or from a variable in the caller: either would create a reference
    # cycle through the frames, and CPython 3.12.1 crashes when it collects such a cycle with the message of a
    # BrokenPipeError, which on_progress raises if the parent process has died.
    raise errors.UserError(
        f"{directory}: {file} cannot be written ({reason}); "
        "free some space or fix the permissions, then run the same command again: finished work is kept."
    ) from error


def open_session(graph: tf.Graph) -> tf.compat.v1.Session:
    """Returns a session with one CPU thread, so that results do not depend on the number of cores."""
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
