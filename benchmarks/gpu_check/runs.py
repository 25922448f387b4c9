"""Runs of the GPU check: child processes with a time limit, and the contents of their event files."""

from __future__ import annotations

import contextlib
import glob
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

NUM_STEPS = 50  # only their losses are compared
_GPU = {
    "CUDA_CACHE_MAXSIZE": "4294967296",  # bytes; enough for all kernels that the driver compiles
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # trainings share a GPU
}
_ROOT = pathlib.Path(__file__).parents[2]
_FIRST_TIMED = 10  # earlier steps allocate memory and compile
_ENOUGH = 0.9  # the last five losses must be below this fraction of the first five


class Run(NamedTuple):
    """A child process that has ended."""

    seconds: float
    problem: str  # "" if its exit code is 0
    log: str
    was_cut_off: bool = False  # True if the time limit ended it


class Steps(NamedTuple):
    """Loss and time of each training step."""

    losses: list[float]
    milliseconds: float  # median


def run(words: Sequence[str], log: str, limit: float, environment: Mapping[str, str]) -> Run:
    """Runs Python with more variables in its environment; both outputs go to the file `log`."""
    start, code = time.monotonic(), None
    with open(log, "wb") as file:
        try:
            code = subprocess.run(
                [sys.executable, *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=_ROOT,
                env={**_GPU, **os.environ, **environment},
                timeout=limit,
            ).returncode
        except subprocess.TimeoutExpired:  # the child has been killed
            pass
    text = pathlib.Path(log).read_text(encoding="utf-8", errors="replace").strip()
    return Run(time.monotonic() - start, _explain(code, text, limit), text, code is None)


def _explain(code: Optional[int], text: str, limit: float) -> str:
    if code == 0:
        return ""
    last = text.splitlines()[-1] if text else "it printed nothing"
    if code is None:
        return f"cut off after {round(limit, 2):g} s: {last}"
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"{how}: {last}"


def choose_devices(number: int, visible: Optional[str]) -> str:
    """Returns a CUDA_VISIBLE_DEVICES with the first GPUs of those that it lists (None: of all GPUs)."""
    listed = [str(index) for index in range(number)] if visible is None else visible.split(",")
    return ",".join(listed[:number])


def read_steps(model_dir: str) -> Steps:
    """Reads the scalar `loss` of each step, written with --save_summary_steps=1."""
    import tensorflow as tf

    found = {}
    for path in sorted(glob.glob(os.path.join(model_dir, "events.out.tfevents.*"))):
        with contextlib.suppress(tf.errors.DataLossError):  # a training that was killed cuts its file
            for event in tf.compat.v1.train.summary_iterator(path):
                for value in event.summary.value:
                    if value.tag == "loss":
                        found[event.step] = (value.simple_value, event.wall_time)
    losses, times = zip(*(found[step] for step in sorted(found))) if found else ((), ())
    passed = [after - before for before, after in zip(times[_FIRST_TIMED:], times[_FIRST_TIMED + 1 :])]
    return Steps(list(losses), 1000 * statistics.median(passed or [math.nan]))


def difference(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Returns the largest difference in a step, relative to the expected loss."""
    pairs = zip(losses[:NUM_STEPS], expected)
    return max(abs(got - want) / abs(want) for got, want in pairs)


def judge(losses: Sequence[float], expected: Sequence[float], tolerance: float, num_steps: int) -> str:
    """Returns what is wrong with the losses of a training of `num_steps` steps, or ""."""
    if len(losses) != num_steps:
        return f"{len(losses)} losses, expected {num_steps}"
    for step, loss in enumerate(losses, 1):
        if not math.isfinite(loss):
            return f"loss of step {step} is {loss}"
    first, last = statistics.mean(losses[:5]), statistics.mean(losses[-5:])
    if last > _ENOUGH * first:
        return f"loss does not fall: {first:.3f} in the first five steps, {last:.3f} in the last five"
    if len(expected) != num_steps or not all(map(math.isfinite, expected)):
        return "no losses of the first line to compare with"
    apart = difference(losses, expected)
    if apart > tolerance:
        step = next(
            n for n, pair in enumerate(zip(losses, expected), 1) if difference(*zip(pair)) > tolerance
        )
        where = f"in step {step}"
        return f"losses differ from the first line's by {apart:.1e}, expected {tolerance:g} at most, {where}"
    return ""
