"""Runs units on Ray, with one remote call per unit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from tfrecord_builder.building.engines import failures, tasks

POLL_SECONDS = 5.0
_RETRIES = 3  # maximum number of retries of a unit on other workers; Ray and Spark both default to 3


@contextlib.contextmanager
def open_engine(runner: str, num_workers: Optional[int]) -> Iterator[tuple[str, Callable]]:
    """Yields the engine (see dispatch.py); the runner `ray` means the cluster that this machine is part of.

    With that runner, Ray itself ends the program if the cluster's head cannot be reached for 60 seconds.
    """
    import ray

    ray.init(address="auto" if runner == "ray" else runner)
    try:
        yield runner, functools.partial(_run, ray)
    finally:
        ray.shutdown()


def _run(ray: Any, task: tasks.WorkerTask, units: Sequence[bytes], _: Any) -> Iterator:
    call, failure = ray.remote(max_retries=_RETRIES)(_call), None
    task_reference = ray.put(task)
    waiting = [call.remote(task_reference, unit) for unit in units]
    while waiting:
        ended, waiting = ray.wait(waiting, timeout=POLL_SECONDS)
        for reference in ended:
            try:
                yield ray.get(reference)
            except ray.exceptions.RayError as error:
                failure = error
        yield int(ray.cluster_resources().get("CPU", 0))  # cores of all workers, whether busy or idle
    if failure is not None:
        killed = (ray.exceptions.OutOfMemoryError, ray.exceptions.WorkerCrashedError)
        kind = failures.WorkerKilledError if isinstance(failure, killed) else ChildProcessError
        raise kind(failure) from failure


def _call(task: tasks.WorkerTask, unit: bytes) -> tasks.Outcome:
    return task(unit)
