import os

import pytest

from tfrecord_builder.program import cpu


@pytest.mark.parametrize("bound_to, in_machine, counted", [({3, 5}, 96, 2), (None, 8, 8), (None, None, 1)])
def test_count_cores_counts_those_that_the_process_may_use(monkeypatch, bound_to, in_machine, counted):
    monkeypatch.setattr(os, "cpu_count", lambda: in_machine)
    if bound_to:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: bound_to, raising=False)
    else:  # the system has no CPU affinity, like macOS
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cpu.count_cores() == counted


def test_read_flags_returns_the_listed_instruction_sets(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags\t\t: fpu avx2 sse\n\nflags : other\n")
    monkeypatch.setattr(cpu, "INFO_FILE", str(tmp_path / "cpuinfo"))
    assert cpu.read_flags() >= {"fpu", "avx2", "sse"} and "other" not in cpu.read_flags()
    monkeypatch.setattr(cpu, "INFO_FILE", str(tmp_path / "nowhere"))
    assert cpu.read_flags() == set()
