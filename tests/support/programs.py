"""Runs a program in a process of its own, forked from one that has loaded TensorFlow: that saves two seconds.

What depends on how a process begins or ends (signals, limits, what TensorFlow reads of the environment when
loading) is tested by subprocess.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
from multiprocessing import forkserver
from unittest import mock

import paths

ROOT = str(paths.ROOT)
# As programs have it; read when TensorFlow loads.
_ENVIRONMENT = {"PYTHONPATH": ROOT, "TF_CPP_MIN_LOG_LEVEL": "3"}
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["estimator_asr.training.loop", "estimator_asr.serving.trained_model"])


def run(program: str, *arguments, cwd=ROOT, timeout: float = 240) -> subprocess.CompletedProcess:
    """Runs `python -m program arguments`, or a file; returns exit code and text as subprocess does."""
    with mock.patch.dict(os.environ, _ENVIRONMENT):
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, name) for name in ("stdout", "stderr")]
        arguments = [str(argument) for argument in arguments]
        process = _FORKED.Process(target=_run, args=(str(program), arguments, str(cwd), paths))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired([program, *arguments], timeout)
        said = [pathlib.Path(path).read_text(encoding="utf-8") for path in paths]
        return subprocess.CompletedProcess([program, *arguments], process.exitcode, *said)


def _run(program, arguments, cwd, paths):
    for descriptor, path in enumerate(paths, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(cwd)
    os.environ.update(_ENVIRONMENT)
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        sys.path[:0] = [os.path.dirname(program), ROOT]
        runpy.run_path(program, run_name="__main__")
    else:
        sys.path.insert(0, ROOT)
        runpy.run_module(program, run_name="__main__", alter_sys=True)
