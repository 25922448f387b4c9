"""Writes the shards of a run one by one, so that an interrupted run continues with those that it lacks.

FILE.json beside a shard is written when all of the shard is on the disk, and marks it as finished.
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
from tfrecord_builder.runtime import lazy_tensorflow as tf
from tfrecord_builder.settings import config_json
from tfrecord_builder.storage import files

# Called with the numbers of utterances done, which may be a fraction, and rejected.
OnProgress = Callable[[float, int], None]


class Shard(Protocol):
    """A shard to write."""

    file: str
    num_items: int


@dataclasses.dataclass
class Written:
    """The contents of the JSON file of a shard.

    fingerprint: hash of everything that the shard depends on.
    rejected: [utterance_id, split, reason, audio] of each utterance that was left out.
    notes: lines for standard error, which the launcher prints when the unit ends.
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
    def load(cls, path: str) -> Written:
        return cls(**config_json.parse(files.read_text(path)))


@dataclasses.dataclass(frozen=True)
class ShardWriter:
    """Writes shards into a directory. Subclasses say how; they go to other processes.

    Attributes:
        written_type: Written or a subclass of it.
        libraries: packages whose versions a worker must share, besides those of engines/tasks.py.
    """

    directory: str
    written_type = Written
    libraries = ()
    item = "utt"  # what progress counts

    def fingerprint(self, shard: Any) -> str:
        """Returns the hash of everything that a shard depends on."""
        raise NotImplementedError

    def make(self, shard: Any, path: str, on_progress: OnProgress) -> Written:
        """Writes a shard to a path; returns what is known of it apart from its size and hashes."""
        raise NotImplementedError

    def find_finished(self, shard: Any) -> Optional[Written]:
        """Returns the contents of the JSON file of a shard that is finished, or None; reads no shard."""
        try:
            written = self.written_type.load(self.json_path(shard))
            num_bytes, _ = files.size_and_time(os.path.join(self.directory, shard.file))
        except (FileNotFoundError, ValueError, TypeError, AttributeError):  # cut, or from another version
            return None
        is_same = written.fingerprint == self.fingerprint(shard)
        return written if is_same and written.num_bytes == num_bytes else None

    def write(self, shard: Any, on_progress: OnProgress) -> Written:
        """Writes a shard and its JSON file, each whole or not at all; raises UserError on a full disk."""
        try:
            return self.replace(shard, on_progress)
        except Exception as error:  # not Ctrl-C, which may come while TensorFlow is imported
            explain_refusal(self.directory, shard.file, error)
            raise

    def replace(self, shard: Any, on_progress: OnProgress) -> Written:
        """Writes a shard as write does; an error of the disk is raised as it is."""
        with contextlib.suppress(FileNotFoundError):
            files.remove(self.json_path(shard))  # of an earlier shard: beside this one it would be believed
        with files.writing(os.path.join(self.directory, shard.file)) as temporary:
            written = self.make(shard, temporary, on_progress)
            written.num_bytes, written.sha256 = os.path.getsize(temporary), files.sha256(temporary)
            files.sync(temporary)
        written.fingerprint = self.fingerprint(shard)
        written.save(self.json_path(shard))
        return written

    def json_path(self, shard: Any) -> str:
        return os.path.join(self.directory, f"{shard.file}.json")


def explain_refusal(directory: str, file: str, error: Exception) -> None:
    """Raises UserError if the error is that of a disk or store that refuses a file of the directory."""
    if isinstance(error, errors.UserError) or not isinstance(error, (OSError, tf.errors.OpError)):
        return
    reason = error.strerror if isinstance(error, OSError) else error.message
    named = getattr(error, "filename", None)
    if isinstance(named, str) and not named.startswith(directory):  # what a unit writes elsewhere
        directory, file = os.path.split(named)
    # Raised here, not in a context manager, and in no variable of a caller: either would make a cycle with
    # the frames below it. CPython 3.12.1 dies when it collects one that holds the message of a broken pipe.
    raise errors.UserError(
        f"{directory}: {file} cannot be written ({reason}); "
        "free some space or fix the permissions, then run the same command again: finished work is kept."
    ) from error


def open_session(graph: tf.Graph) -> tf.compat.v1.Session:
    """Returns a session on one thread without GPU: neither workers nor cores change a bit of its results."""
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=1,
        use_per_session_threads=True,
        device_count={"GPU": 0},
    )
    return tf.compat.v1.Session(graph=graph, config=options)


def hash_json(values: list) -> str:
    """Returns the hex digest of values that JSON can represent."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
