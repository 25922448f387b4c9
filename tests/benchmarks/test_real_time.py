"""The benchmark of the real-time factor does the same work on both sides."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from benchmarks.real_time import __main__ as real_time

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "kaldi_native_fbank")),
        reason="benchmarks/requirements.txt is not installed",
    ),
]


class Side:
    """Parts that take no time."""

    frontend = encoder = decoding = staticmethod(lambda: None)


# PyTorch warns while it traces, also from C, where an error becomes a SystemError.
@pytest.mark.filterwarnings("default")
def test_both_sides_have_the_same_log_probs_and_parts(capsys):
    sides = real_time.make_sides(real_time.BenchmarkConfig(seconds=0.6, rounds=1))
    ours, peer = sides["ours"], sides["PyTorch"]  # which refuses other log probs
    assert ours.encoder().shape == tuple(peer.encoder().shape) == (1, 15, 1301)
    assert peer.frontend().shape == ours.frontend().shape
    np.testing.assert_array_less(peer.decoding(), 1300)
    found = real_time.time_parts(sides, 1)
    assert all(list(parts) == ["frontend", "encoder", "decoding"] for parts in found.values())


def test_parts_are_differences(monkeypatch, capsys):
    def taken(loops, rounds):
        return dict(zip(loops, [[0.1], [0.4], [0.5]]))

    monkeypatch.setattr(real_time.comparison, "time_in_turns", taken)
    found = real_time.time_parts({"ours": Side()}, 1)
    assert found["ours"] == pytest.approx({"frontend": 0.1, "encoder": 0.3, "decoding": 0.1})
    real_time.show(found, 5.0, 2)
    assert capsys.readouterr().out.splitlines() == [
        "5.00 s of audio, 2 cores",
        "side        real-time factor          frontend           encoder          decoding",
        "ours                  0.1000      100.0 ms 20%      300.0 ms 60%      100.0 ms 20%",
    ]
