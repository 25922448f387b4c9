from __future__ import annotations

import types

import pytest

from estimator_asr.diagnostics.doctor import machine


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("memory, disk, level", [(4.0, 2.0, "ok"), (3.9, 1.9, "warning")])
def test_memory_and_disk(memory, disk, level, monkeypatch):
    monkeypatch.setattr(machine, "available_memory_gb", lambda: memory)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=disk * 1e9))
    found = list(machine.check("AM"))
    assert [finding.level for finding in found] == ["ok", level, level]
    assert f"{memory} GB of memory" in found[1].text
    assert f"{disk} GB of disk space free for AM" in found[2].text
    assert (memory < 4) == ("train with a smaller --batch_frames" in found[1].text)
    assert (disk < 2) == ("expected 2 GB or more; delete files or choose another disk" in found[2].text)


def test_memory_is_limited_by_the_machine_and_the_container(tmp_path):
    write(tmp_path / "proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    5000000 kB\n")
    assert machine.available_memory_gb(str(tmp_path)) == 5.12
    write(tmp_path / "sys/fs/cgroup/memory.max", "max\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", "1000000000\n")
    assert machine.available_memory_gb(str(tmp_path)) == 5.12
    write(tmp_path / "sys/fs/cgroup/memory.max", "3000000000\n")
    assert machine.available_memory_gb(str(tmp_path)) == 2.0


def test_a_missing_directory_has_the_disk_of_its_parent(tmp_path):
    texts = [finding.text for finding in machine.check(str(tmp_path / "new" / "AM"))]
    assert texts[0].endswith("CPU cores") and int(texts[0].split()[0]) >= 1
    assert "AM" in texts[2]
