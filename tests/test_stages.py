"""Stages: stamped when done, failed by name, ended in good order."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from estimator_asr import stages
from tfrecord_builder import errors

ROOT = pathlib.Path(__file__).parent.parent


def stage(*arguments, module="calendar", output=None):
    return stages.Stage("january", "Print January", module, arguments, output)


def test_runs_the_program_and_stamps_it(tmp_path):
    january = stage("2024", "1", output=tmp_path / "january.txt")
    assert stages.seconds_of_finished(january, tmp_path / "stamps") is None
    seconds = stages.run(january, tmp_path / "stamps")
    assert "January 2024" in (tmp_path / "january.txt").read_text()
    assert stages.seconds_of_finished(january, tmp_path / "stamps") == seconds
    assert sorted(os.listdir(tmp_path)) == ["january.txt", "stamps"]


def test_a_stamp_counts_for_the_same_command_only(tmp_path):
    stages.run(stage("2024", "1", output=tmp_path / "x"), tmp_path)
    assert stages.seconds_of_finished(stage("2025", "1", output=tmp_path / "x"), tmp_path) is None


def test_a_failed_program_is_named_and_leaves_neither_stamp_nor_output(tmp_path, capfd):
    failing = stage("no year", output=tmp_path / "x")
    with pytest.raises(
        errors.UserError, match=r"python -m calendar 'no year' > .*x: exit code is 2, expected 0; "
    ):
        stages.run(failing, tmp_path)
    assert "no year" in capfd.readouterr().err
    assert stages.seconds_of_finished(failing, tmp_path) is None
    assert not (tmp_path / "x").exists()


SLEEPER = """
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path("saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
pathlib.Path("started").touch()
time.sleep(60)
"""
RUNNER = """
import pathlib, signal, sys
from estimator_asr import stages
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits it as ignored
stages.run(stages.Stage("sleep", "Sleep", "sleeper", ()), pathlib.Path("stamps"))
"""


@pytest.mark.parametrize("signal_number, exit_code", [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_when_interrupted_the_program_ends_in_good_order_first(tmp_path, signal_number, exit_code):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        _wait_for(tmp_path / "started")
        process.send_signal(signal_number)
        assert process.wait(timeout=30) == exit_code
    assert (tmp_path / "saved").exists()
    assert not (tmp_path / "stamps").exists()


def _wait_for(path: pathlib.Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)
