"""What a benchmark needs is there, or is named."""

import dataclasses
import importlib.util
import os
import subprocess
import sys

import pytest

from benchmarks import machine
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags


@dataclasses.dataclass(frozen=True)
class Config(config_flags.Checked):
    rounds: int = config_flags.setting(20, "rounds", minimum=1)
    num_cores: int = config_flags.setting(0, "cores", minimum=0, maximum=2)


def test_one_core_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    expected = "benchmarks: this process has 1 core, expected 2; run it where there are two."
    with pytest.raises(errors.UserError, match=expected):
        machine.check("torch", "PyTorch")


def test_no_peer_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.UserError, match="PyTorch is not installed, .* pip install -r benchmarks/req"):
        machine.check("torch", "PyTorch")


def test_two_cores_are_left(monkeypatch):
    left = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {7, 3, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: left.append((process, cores)))
    machine.check("torch", "PyTorch")
    assert left == [(0, [3, 5])]


def test_a_benchmark_runs_with_one_core_and_then_with_two(monkeypatch):
    commands = []

    def run(command, check):
        commands.append(command)
        return subprocess.CompletedProcess(command, returncode=len(commands) % 2)

    monkeypatch.setattr(subprocess, "run", run)
    assert machine.run_on_cores("benchmarks.x", Config(rounds=3), None) == 1, "the first one has failed"
    started = [sys.executable, "-m", "benchmarks.x", "--rounds=3"]
    assert commands == [[*started, "--num_cores=1"], [*started, "--num_cores=2"]]
