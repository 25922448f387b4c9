"""Runs a program in a process that is forked from one with TensorFlow loaded, which saves two seconds.

Tests that depend on how a process starts or ends (signals, limits, variables that TensorFlow reads when it is
loaded) use subprocess instead.
"""

import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import forkserver
from typing import Optional
from unittest import mock

import paths

ROOT = str(paths.ROOT)
# Set before TensorFlow is loaded, as the programs do.
_ENVIRONMENT = {"PYTHONPATH": paths.PYTHONPATH, "TF_CPP_MIN_LOG_LEVEL": "3"}
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(
    ["estimator_asr.training.loop", "estimator_asr.exporting.saved_model.trained_model"]
)


def run(program: str, *arguments, cwd=ROOT, timeout: float = 240) -> subprocess.CompletedProcess:
    """Runs `python -m program arguments`, or a .py file; returns the exit code and the output."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, name) for name in ("stdout", "stderr")]
        process = start(program, *arguments, cwd=cwd, outputs=paths)
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired([program, *arguments], timeout)
        said = [pathlib.Path(path).read_text(encoding="utf-8") for path in paths]
        return subprocess.CompletedProcess([program, *arguments], process.exitcode, *said)


def start(program: str, *arguments, cwd=ROOT, outputs: Sequence[str], environment: Optional[dict] = None):
    """Starts `python -m program arguments`, or a .py file; returns the process.

    Standard output and standard error are appended to the two files in `outputs`; `environment` contains
    additional variables.
    """
    with mock.patch.dict(os.environ, _ENVIRONMENT):
        forkserver.ensure_running()
    arguments = [str(argument) for argument in arguments]
    environment = {**_ENVIRONMENT, **(environment or {})}
    call = (str(program), arguments, str(cwd), [str(path) for path in outputs], environment)
    process = _FORKED.Process(target=_run, args=call, daemon=True)
    process.start()
    return process


def wait_until(is_true) -> None:
    """Waits until is_true() returns True, for at most a minute."""
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _run(program, arguments, cwd, outputs, environment):
    for descriptor, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.chdir(cwd)
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would ignore SIGINT
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
        runpy.run_path(program, run_name="__main__")
    else:
        sys.path.insert(0, ROOT)
        runpy.run_module(program, run_name="__main__", alter_sys=True)
