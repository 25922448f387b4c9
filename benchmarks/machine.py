"""What a benchmark needs of the machine: its peer's package, and two cores."""

from __future__ import annotations

import importlib.util
import os

from tfrecord_builder import errors

NUM_CORES = 2


def check(package: str, name: str) -> None:
    """Leaves this process two cores, for both sides.

    Args:
        package: that of the peer, as it is imported.
        name: of the peer.

    Raises:
        errors.UserError: the package is not installed, or this process has one core.
    """
    if importlib.util.find_spec(package) is None:
        raise errors.UserError(
            f"benchmarks: {name} is not installed, expected it as the peer; "
            "install it with python -m pip install -r benchmarks/requirements.txt."
        )
    check_cores()


def check_cores() -> None:
    """Leaves this process two cores.

    Raises:
        errors.UserError: it has one.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < NUM_CORES:
        raise errors.UserError(
            f"benchmarks: this process has {len(cores)} core, expected {NUM_CORES}; "
            "run it where there are two."
        )
    os.sched_setaffinity(0, cores[:NUM_CORES])
