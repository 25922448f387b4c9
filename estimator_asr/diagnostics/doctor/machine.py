"""CPU cores, memory and disk space."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Iterator

from estimator_asr.diagnostics.doctor import findings
from tfrecord_builder.runtime import cpu

# A model of default size with its batch takes about 3 GB, the checkpoints of a training 1 GB.
_MEMORY_GB = 4.0
_DISK_GB = 2.0


def check(directory: str) -> Iterator[findings.Finding]:
    """Yields the findings; `directory` is where files will be written, and need not exist."""
    yield findings.ok(f"{cpu.count_cores()} CPU cores")
    fix = "end other programs, or train with a smaller --batch_frames"
    yield judge(available_memory_gb(), "of memory available", _MEMORY_GB, fix)
    path = os.path.abspath(directory)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    free, fix = shutil.disk_usage(path).free / 1e9, "delete files or choose another disk"
    yield judge(free, f"of disk space free for {directory}", _DISK_GB, fix)


def judge(gigabytes: float, what: str, needed: float, fix: str) -> findings.Finding:
    """Returns whether memory or disk space is enough, and how to get more."""
    if gigabytes >= needed:
        return findings.ok(f"{gigabytes:.1f} GB {what}")
    return findings.warning(f"{gigabytes:.1f} GB {what}, expected {needed:.0f} GB or more; {fix}")


def available_memory_gb(root: str = "/") -> float:
    """Returns the memory that the kernel calls available, or that the container may still use if less."""
    meminfo = pathlib.Path(root, "proc/meminfo").read_text()
    available = int(re.search(r"MemAvailable:\s*(\d+) kB", meminfo).group(1)) * 1024
    cgroup = pathlib.Path(root, "sys/fs/cgroup")
    try:
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return available / 1e9
    return min(available, limit - used) / 1e9
