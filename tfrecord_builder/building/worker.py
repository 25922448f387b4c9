"""A worker of the builder writes shards; as a process of its own it takes them through a pipe."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from tfrecord_builder import errors
from tfrecord_builder import lazy_tensorflow as tf
from tfrecord_builder.building import shard_statistics, shard_writer, sharding

REPORT_SECONDS = 0.2
Note = Callable[[str, int, int], None]  # takes file, utterances done, utterances rejected


def run(connection: Connection, directory: str) -> None:
    """Takes the settings, then writes every shard that comes, until the pipe ends.

    It also ends when the parent dies.

    Sends (file, done, rejected) on the way, then the ShardStatistics, or the UserError that ended it.
    """
    # Ctrl-C reaches the whole group; the parent says so in one line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        settings = connection.recv()
        while True:
            waiting = connection.recv()
            report = Reporter(waiting.file, lambda *message: connection.send(message))
            connection.send(write(waiting, settings, directory, report))
    except (EOFError, ConnectionError):
        return


def write(
    waiting: sharding.Shard, settings: sharding.Settings, directory: str, report: Callable[[int, int], None]
) -> shard_statistics.ShardStatistics | errors.UserError:
    """Writes a shard as shard.write_shard does; gives what it counted, or the error to tell the user."""
    try:
        return shard_writer.write_shard(waiting, settings, directory, report)
    except errors.UserError as error:
        return error
    except Exception as error:  # no Ctrl-C, which may come while TensorFlow loads
        if not isinstance(error, (OSError, tf.errors.OpError)):
            raise
        reason = error.strerror if isinstance(error, OSError) else error.message
        return errors.UserError(
            f"{directory}: {waiting.file} cannot be written ({reason}), expected room and permission; "
            "make room and call the build again: finished shards are kept."
        )


class Reporter:
    """Tells how far a shard is, a few times a second."""

    def __init__(self, file: str, note: Note):
        self._file = file
        self._note = note
        self._last = 0.0

    def __call__(self, done: int, rejected: int) -> None:
        if time.monotonic() - self._last >= REPORT_SECONDS:
            self._note(self._file, done, rejected)
            self._last = time.monotonic()
