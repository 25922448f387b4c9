"""Measures the run time of a program, and its peak memory.

    python -m benchmarks.devices.starts COMMAND

A small separate process starts the command, because Linux also counts the memory of the forking process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from tfrecord_builder import errors

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Start(NamedTuple):
    """One run of a program; peak_mb is the peak of its resident memory."""

    seconds: float
    peak_mb: float


def measure(module: str, *words: str) -> Start:
    """Runs `python -m module words` in the project's directory.

    Raises:
        errors.UserError: the program fails.
    """
    command = [sys.executable, "-m", module, *words]
    own = [sys.executable, "-m", "benchmarks.devices.starts", *command]
    run = subprocess.run(own, cwd=_ROOT, capture_output=True, text=True)
    if run.returncode:
        said = " ".join(run.stderr.split())[-300:]
        raise errors.UserError(f"benchmarks: {module} failed with exit code {run.returncode}: {said}")
    return Start(*json.loads(run.stdout))


def main(command: Sequence[str]) -> int:
    """Runs a command without its output; prints the Start as JSON; returns the exit code."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait again
    print(json.dumps(Start(seconds, usage.ru_maxrss * 1024 / 1e6)))  # Linux has KiB
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
