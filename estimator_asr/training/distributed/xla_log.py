"""How often XLA compiled and how long that took.

TensorFlow 2.15 keeps both figures where Python cannot read them, but writes a line of each compilation to
file descriptor 2 if two environment variables are set before it loads:

    2026-11-21 17:47:21.483100: I tensorflow/compiler/jit/device_compilation_profiler.cc:113]
    Compiled cluster_1 2 times, compile time: 129131 us, cumulative: 266081 us (0 us / 266 ms)

So the program starts itself again with them, and sends what TensorFlow writes there to a file; what Python
writes goes on to the terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from estimator_asr import estimator_api

_VARIABLES = {"TF_CPP_VMODULE": "device_compilation_profiler=1", "TF_CPP_MIN_LOG_LEVEL": "0"}
_COMPILED = re.compile(rb"\] Compiled (\S+) \d+ times, compile time: (\d+) us")


class Compilations(NamedTuple):
    """What XLA did since the process started."""

    count: int
    clusters: int  # parts of the graph, each compiled once a shape
    seconds: float


def restart_with_log(module: str, arguments: Sequence[str]) -> None:
    """Starts the program again in this process if it cannot log compilations as it runs.

    Args:
        module: name of the program, as after `python -m`.
        arguments: its command line without the program.
    """
    if any(os.environ.get(name) != value for name, value in _VARIABLES.items()):
        command = [sys.executable, "-m", module, *arguments]
        os.execve(sys.executable, command, {**os.environ, **_VARIABLES})


def warn_on_cpu(num_gpus: int) -> None:
    """Says why --xla is off by default, where it is used without a GPU."""
    if not num_gpus:
        logging.warning(
            "--xla on a CPU: measured with a Conformer of 4 layers, a step took three times as long (553 ms "
            "against 182 ms) and one shape 44 s to compile; leave it out"
        )


class CompilationLog:
    """Reads the lines of TensorFlow from a file that takes the place of file descriptor 2."""

    def __init__(self, path: str):
        """Opens the file and counts nothing.

        Args:
            path: of the file; what an earlier run wrote is gone.
        """
        open(path, "wb").close()
        self._path = path
        self._position = 0
        self._times = []
        self._clusters = set()

    def redirect(self) -> None:
        """Sends what TensorFlow writes to the file, from now on; Python keeps the old standard error."""
        sys.stderr.flush()
        kept = os.dup(2)
        with open(self._path, "ab") as file:
            os.dup2(file.fileno(), 2)
        sys.stderr = os.fdopen(kept, "w", buffering=1)
        logging.get_absl_handler().python_handler.stream = sys.stderr

    def read(self) -> Compilations:
        """Returns what has been compiled."""
        with open(self._path, "rb") as file:
            file.seek(self._position)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        for cluster, microseconds in _COMPILED.findall(whole):
            self._clusters.add(cluster)
            self._times.append(int(microseconds))
        return Compilations(len(self._times), len(self._clusters), sum(self._times) / 1e6)


class CompilationHook(estimator_api.SessionRunHook):
    """Logs the count and time of compilations when they changed: every so many steps, and at the end."""

    def __init__(self, log: CompilationLog, every_steps: int):
        self._log = log
        self._every_steps = every_steps
        self._steps = 0
        self._shown = None

    def after_run(self, run_context, run_values):
        self._steps += 1
        if self._steps % self._every_steps == 0:
            self._show()

    def end(self, session):
        self._show()

    def _show(self):
        compilations = self._log.read()
        if compilations != self._shown:
            logging.info(
                "XLA compiled %d times in %.1f s (%d parts of the graph, each once a shape)",
                compilations.count,
                compilations.seconds,
                compilations.clusters,
            )
            self._shown = compilations
