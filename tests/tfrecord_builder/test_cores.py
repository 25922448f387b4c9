from __future__ import annotations

import os

from tfrecord_builder import cores


def test_counts_the_cores_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    assert cores.count() == 2


def test_counts_those_of_the_machine_where_a_process_cannot_be_bound(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cores.count() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores.count() == 1
