"""CPU cores, memory and disk space."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

from estimator_asr.diagnostics.doctor import findings

# A default acoustic model with its batch takes about 3 GB; the checkpoints of a training 1 GB.
_MEMORY_GB = 4.0
_DISK_GB = 2.0


def check(directory: str) -> Iterator[findings.Finding]:
    """Yields the findings; `directory` is where files will be written, and need not exist."""
    yield findings.ok(f"{len(os.sched_getaffinity(0))} CPU cores")
    yield judge_memory(available_memory_gb())
    path = os.path.abspath(directory)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    yield judge_disk(directory, shutil.disk_usage(path).free / 1e9)


def judge_memory(gigabytes: float) -> findings.Finding:
    """Returns whether the memory is enough for a model of default size."""
    if gigabytes >= _MEMORY_GB:
        return findings.ok(f"{gigabytes:.1f} GB of memory available")
    return findings.warning(
        f"{gigabytes:.1f} GB of memory are available, expected {_MEMORY_GB:.0f} for a model of default size; "
        "end other programs, or train with a smaller --batch_frames"
    )


def judge_disk(directory: str, gigabytes: float) -> findings.Finding:
    """Returns whether the disk space is enough for the checkpoints of a training."""
    if gigabytes >= _DISK_GB:
        return findings.ok(f"{gigabytes:.1f} GB free for {directory}")
    return findings.warning(
        f"{gigabytes:.1f} GB are free for {directory}, expected {_DISK_GB:.0f} for checkpoints; delete files "
        "or choose another disk"
    )


def available_memory_gb(root: str = "/") -> float:
    """Returns the memory that the kernel calls available, or that the container may still use if less."""
    with open(os.path.join(root, "proc/meminfo"), encoding="utf-8") as file:
        available = int(re.search(r"MemAvailable:\s*(\d+) kB", file.read()).group(1)) * 1024
    cgroup = os.path.join(root, "sys/fs/cgroup")
    try:
        limit, used = (_read_bytes(os.path.join(cgroup, name)) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return available / 1e9
    return min(available, limit - used) / 1e9


def _read_bytes(path):
    with open(path, encoding="utf-8") as file:
        return int(file.read())
