"""The benchmark of streams hears the same pieces on both sides."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.streaming import __main__ as streaming

pytestmark = pytest.mark.slow


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "onnx", "sherpa_onnx")),
    reason="benchmarks/requirements.txt is not installed",
)
@pytest.mark.filterwarnings("default")  # PyTorch warns while it traces
def test_one_stream_of_each_side_and_the_whole(capsys):
    (bar,) = streaming.time_one(streaming.BenchmarkConfig(seconds=1.3, num_cores=1, rounds=1))
    assert 0 < bar.value < 1000 and bar.maximum == 16
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1.3 s of audio, chunks of 320 ms, one core"
    assert [line.split("  ")[0] for line in lines[1:4]] == ["ours", "sherpa-onnx", "the whole, at its end"]


def test_many_streams_at_once(capsys):
    (bar,) = streaming.time_many(streaming.BenchmarkConfig(seconds=0.7, num_cores=2, rounds=1))
    assert 0 < bar.value and bar.maximum == 1
    assert capsys.readouterr().out.startswith("64 streams at once, two cores\nours ")
