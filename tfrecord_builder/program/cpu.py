"""Queries the CPU: the number of cores that this process may use, and the instruction sets."""

from __future__ import annotations

import contextlib
import os

INFO_FILE = "/proc/cpuinfo"  # exists only on Linux


def count_cores() -> int:
    """Returns the number of cores that this process may use (on macOS: all cores of the machine)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_flags() -> set[str]:
    """Returns the names of the instruction sets, such as avx2; empty if the system does not list them."""
    with contextlib.suppress(OSError), open(INFO_FILE, encoding="utf-8") as file:
        return set(next((line for line in file if line.startswith("flags")), "").split())
    return set()
