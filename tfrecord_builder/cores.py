"""The CPU cores that this process may use."""

from __future__ import annotations

import os


def count() -> int:
    """Returns how many, of those that a container or taskset leaves; macOS tells those of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
