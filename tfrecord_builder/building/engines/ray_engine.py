"""Runs units on Ray: one remote call per unit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from tfrecord_builder.building.engines import tasks

POLL_SECONDS = 5.0
_RETRIES = 3  # by Ray, on another worker; the default, and Spark's


@contextlib.contextmanager
def open_engine(runner: str, num_workers: Optional[int]) -> Iterator[tuple[str, Callable]]:
    """Yields the engine (see dispatch.py); `ray` is the cluster of this machine.

    Without a client in between, Ray itself ends the program when its head is lost for 60 seconds.
    """
    import ray

    ray.init(address="auto" if runner == "ray" else runner)
    try:
        yield runner, functools.partial(_run, ray)
    finally:
        ray.shutdown()


def _run(ray: Any, task: tasks.Task, units: Sequence[bytes], _: Any) -> Iterator:
    call, lost = ray.remote(max_retries=_RETRIES)(_call), None
    sent = ray.put(task)
    waiting = [call.remote(sent, unit) for unit in units]
    while waiting:
        ended, waiting = ray.wait(waiting, timeout=POLL_SECONDS)
        for each in ended:
            try:
                yield ray.get(each)
            except ray.exceptions.RayError as error:
                lost = error
        yield int(ray.cluster_resources().get("CPU", 0))  # cores of workers, busy or not
    if lost is not None:
        raise ChildProcessError(lost) from lost


def _call(task: tasks.Task, unit: bytes) -> tasks.Outcome:
    return task(unit)
