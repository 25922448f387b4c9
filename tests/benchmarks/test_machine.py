"""What a benchmark needs is there, or is named."""

import importlib.util
import os

import pytest

from benchmarks import machine
from tfrecord_builder import errors


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
