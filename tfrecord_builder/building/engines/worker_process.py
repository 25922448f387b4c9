"""A worker process of the local engine, at the other end of a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

REPORT_SECONDS = 0.5


def start() -> tuple[Connection, BaseProcess]:
    """Returns our end of the pipe to a new worker, and its process; does not wait until it is ready."""
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=run_worker, args=(theirs,), daemon=True)
    # Ctrl-C is blocked until the worker can end without a traceback, some seconds after its start.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()  # so that recv() fails when the worker has ended
    return ours, process


def run_worker(connection: Connection) -> None:
    """Runs each (task, unit) from a pipe until None arrives or the pipe is closed.

    Sends (file, utterances done, utterances rejected) at most every REPORT_SECONDS, then the outcome.
    """
    # Ctrl-C reaches the whole process group; the parent reports it in one line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with contextlib.suppress(EOFError, ConnectionError):  # the parent died
        while message := connection.recv():
            task, unit = message
            connection.send(task(unit, _Reporter(connection)))


class _Reporter:
    def __init__(self, connection: Connection):
        self._connection, self._sent = connection, time.monotonic()

    def __call__(self, *progress) -> None:
        if time.monotonic() - self._sent >= REPORT_SECONDS:
            self._connection.send(progress)
            self._sent = time.monotonic()
