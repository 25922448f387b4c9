from __future__ import annotations

import pytest

from estimator_asr.diagnostics.doctor import machine


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("gigabytes, level", [(4.0, "ok"), (3.9, "warning")])
def test_memory(gigabytes, level):
    finding = machine.judge_memory(gigabytes)
    assert finding.level == level and f"{gigabytes} GB" in finding.text
    assert (level == "warning") == ("train with a smaller --batch_frames" in finding.text)


@pytest.mark.parametrize("gigabytes, level", [(2.0, "ok"), (1.9, "warning")])
def test_disk(gigabytes, level):
    finding = machine.judge_disk("AM", gigabytes)
    assert finding.level == level and f"{gigabytes} GB" in finding.text and "AM" in finding.text


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
