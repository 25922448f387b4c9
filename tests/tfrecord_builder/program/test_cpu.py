from __future__ import annotations

import os

from tfrecord_builder.program import cpu


def test_count_cores_counts_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    assert cpu.count_cores() == 2


def test_count_cores_counts_all_where_processes_cannot_be_bound(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cpu.count_cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpu.count_cores() == 1


def test_read_flags_returns_the_listed_instruction_sets(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags\t\t: fpu avx2 sse\n\nflags : other\n")
    monkeypatch.setattr(cpu, "INFO_FILE", str(tmp_path / "cpuinfo"))
    assert cpu.read_flags() >= {"fpu", "avx2", "sse"} and "other" not in cpu.read_flags()
    monkeypatch.setattr(cpu, "INFO_FILE", str(tmp_path / "nowhere"))
    assert cpu.read_flags() == set()
