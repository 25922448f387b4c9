"""A worker process of the local engine; the engine talks to it through a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

REPORT_SECONDS = 0.5


def start() -> tuple[Connection, BaseProcess]:
    """Starts a worker; returns our end of its pipe and its process, without waiting until it is ready."""
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=run_worker, args=(theirs,), daemon=True)
    # The worker blocks Ctrl-C until it can exit without a traceback, a few seconds after its start.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()  # so that recv() fails after the worker has exited
    return ours, process


def run_worker(connection: Connection) -> None:
    """Runs every (task, unit) received from a pipe, until it receives None or the pipe is closed.

    Sends (file, utterances done, utterances rejected) at most every REPORT_SECONDS, and finally the outcome.
    """
    # Ctrl-C reaches the whole process group: workers exit silently, and the parent reports it in one line.
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
