"""Cores, memory and room on the disk."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

from estimator_asr.diagnostics.doctor import findings

# A default acoustic model with its batch takes about 3 GB; checkpoints and exports of a training 1 GB.
_MEMORY_GB = 4.0
_DISK_GB = 2.0


def check(directory: str) -> Iterator[findings.Finding]:
    """Yields the findings; `directory` is where files will be written, or a path below one that is there."""
    yield findings.ok(f"{num_cores()} CPU cores")
    yield judge_memory(available_memory_gb())
    yield judge_disk(directory, _free_disk_gb(directory))


def judge_memory(gigabytes: float) -> findings.Finding:
    if gigabytes >= _MEMORY_GB:
        return findings.ok(f"{gigabytes:.1f} GB of memory available")
    return findings.warning(
        f"{gigabytes:.1f} GB of memory are available, expected {_MEMORY_GB:.0f} for a model of default size; "
        "end other programs, or train with a smaller --batch_frames"
    )


def judge_disk(directory: str, gigabytes: float) -> findings.Finding:
    if gigabytes >= _DISK_GB:
        return findings.ok(f"{gigabytes:.1f} GB free for {directory}")
    return findings.warning(
        f"{gigabytes:.1f} GB are free for {directory}, expected {_DISK_GB:.0f} for checkpoints; make room"
    )


def num_cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory_gb(root: str = "/") -> float:
    """Returns what the kernel calls available, or what the container may still take if that is less."""
    with open(os.path.join(root, "proc/meminfo"), encoding="utf-8") as file:
        available = int(re.search(r"MemAvailable:\s*(\d+) kB", file.read()).group(1)) * 1024
    limit, used = (
        _read_bytes(os.path.join(root, "sys/fs/cgroup", name)) for name in ("memory.max", "memory.current")
    )
    if limit is not None and used is not None:
        available = min(available, limit - used)
    return available / 1e9


def _read_bytes(path):
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):  # "max" is no limit
        return None


def _free_disk_gb(directory):
    path = os.path.abspath(directory)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free / 1e9
