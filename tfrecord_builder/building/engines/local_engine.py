"""Runs units in processes on this machine, or in the calling process if one worker is enough."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing.connection
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Optional

from tfrecord_builder.building.engines import failures, tasks
from tfrecord_builder.program import cpu

REPORT_SECONDS = 0.5


@contextlib.contextmanager
def open_engine(runner: str, num_workers: Optional[int]) -> Iterator[tuple[str, Callable]]:
    """Yields the engine (see dispatch.py)."""
    yield "", functools.partial(_run, num_workers or cpu.count_cores())


def _run(
    num_workers: int, task: tasks.WorkerTask, units: Sequence[bytes], on_progress: tasks.OnProgress
) -> Iterator[tasks.Outcome]:
    if min(num_workers, len(units)) == 1:  # a new process would have to import TensorFlow again
        yield from (task(unit, on_progress) for unit in units)
        return
    queue, processes, exit_code = [(task, unit) for unit in reversed(units)], {}, 0
    try:
        for _ in range(min(num_workers, len(units))):
            connection, process = start_worker()
            processes[connection] = process
        for connection in processes:  # send() may block until a worker reads, so all start first
            _send_next(connection, queue)
        while processes:
            for connection in multiprocessing.connection.wait(list(processes)):
                try:
                    message = connection.recv()
                except (EOFError, OSError):  # the process has exited or was killed
                    process = processes.pop(connection)
                    process.join()
                    exit_code = process.exitcode or exit_code
                    continue
                if isinstance(message, tuple):
                    on_progress(*message)
                    continue
                yield message
                _send_next(connection, queue)
    finally:
        for process in processes.values():
            process.terminate()
    if exit_code:
        kind = failures.WorkerKilledError if exit_code == -signal.SIGKILL else ChildProcessError
        raise kind(f"a worker process ended with exit code {exit_code}")


def _send_next(connection: multiprocessing.connection.Connection, queue: list[tuple]) -> None:
    """Sends the next unit, or None if no units are left; ignores dead processes, which recv() will detect."""
    with contextlib.suppress(OSError):
        connection.send(queue.pop() if queue else None)


def start_worker() -> tuple[Connection, BaseProcess]:
    """Starts a worker without waiting for it; returns the parent's end of its pipe, and its process."""
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=run_worker, args=(theirs,), daemon=True)
    # The worker inherits the block, which it lifts once Ctrl-C would end it without a traceback.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()  # so that recv() fails after the worker has exited
    return ours, process


def run_worker(connection: Connection) -> None:
    """Runs every (task, unit) received from a pipe, until it receives None or the pipe is closed.

    While a unit runs, sends (file, utterances done, utterances rejected) at most every REPORT_SECONDS. When
    the unit ends, sends the outcome.
    """
    # Ctrl-C reaches the whole process group. Workers exit silently; the parent prints a single message.
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
