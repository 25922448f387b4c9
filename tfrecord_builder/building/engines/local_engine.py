"""Runs units in processes on this machine, or in the calling process if one worker is enough."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing.connection
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

from tfrecord_builder.building.engines import tasks, worker_process
from tfrecord_builder.program import cpu


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
            connection, process = worker_process.start()
            processes[connection] = process
        for connection in processes:  # a separate loop, because a full pipe blocks until it is read
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
        raise ChildProcessError(f"a worker process ended with exit code {exit_code}")


def _send_next(connection: multiprocessing.connection.Connection, queue: list[tuple]) -> None:
    """Sends the next unit, or None if there is none; ignores a dead process, which recv() will detect."""
    with contextlib.suppress(OSError):
        connection.send(queue.pop() if queue else None)
