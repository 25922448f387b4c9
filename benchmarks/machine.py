"""What a benchmark needs of the machine: its peer's package, its libraries, and one core or two."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable

from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, lazy_tensorflow

NUM_CORES = 2


def load_libraries() -> None:
    """Imports PyTorch if it is installed, then TensorFlow, for a program that imports both.

    Without TensorFlow it ends the program with one sentence.
    """
    with contextlib.suppress(ImportError):
        import torch._dynamo  # noqa: F401  (PyTorch's Triton crashes if TensorFlow 2.21 was loaded before it)
    lazy_tensorflow.load_or_exit()


def use_graphs() -> None:
    """Turns off TensorFlow's eager execution, and messages that are not errors."""
    import tensorflow as tf  # which some benchmarks do without
    from absl import logging

    tf.compat.v1.disable_eager_execution()
    tf.get_logger().setLevel("ERROR")
    logging.set_verbosity(logging.ERROR)


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
            f"benchmarks: the peer {name} is not installed; run python -m pip install -r "
            "benchmarks/requirements.txt."
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
            "benchmarks: this process may use only one core; run the benchmark where it may use two."
        )
    os.sched_setaffinity(0, cores[:NUM_CORES])


def run_on_cores(name: str, config, measure: Callable[..., int]) -> int:
    """Returns the exit code of measure(config) on config.num_cores cores, without TensorFlow's messages.

    If that is 0, `python -m name` runs with one core and then with two; the higher exit code counts.
    """
    if not config.num_cores:
        command = [sys.executable, "-m", name, *config_flags.to_command_line(config)]
        runs = [subprocess.run([*command, f"--num_cores={count}"], check=False) for count in (1, 2)]
        return max(run.returncode for run in runs)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: config.num_cores])
    use_graphs()
    return measure(config)
