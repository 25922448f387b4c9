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
    """Returns our end of the pipe to a new worker, and its process, without waiting until it is ready."""
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=run_worker, args=(theirs,), daemon=True)
    # The worker unblocks Ctrl-C when it can end without a traceback, which takes it seconds.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()  # so that the pipe ends when the worker does
    return ours, process


def run_worker(connection: Connection) -> None:
    """Runs each (task, unit) from a pipe until None comes or the pipe is closed.

    Sends (file, utterances done, utterances rejected) every REPORT_SECONDS at most, and the outcome.
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
