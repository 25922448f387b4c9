"""Prepares the machine for a benchmark: the peer's package, the libraries, and one or two cores."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable

from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, lazy_tensorflow

NUM_CORES = 2


def load_libraries() -> None:
    """Imports PyTorch if it is installed, then TensorFlow, for a program that imports both.

    If TensorFlow is missing, the program ends with a one-sentence message.
    """
    with contextlib.suppress(ImportError):
        import torch._dynamo  # noqa: F401  (PyTorch's Triton crashes if TensorFlow 2.21 was loaded before it)
    lazy_tensorflow.load_or_exit()


def use_graphs() -> None:
    """Turns off TensorFlow's eager execution, and messages that are not errors."""
    import tensorflow as tf  # some benchmarks do not need TensorFlow
    from absl import logging

    tf.compat.v1.disable_eager_execution()
    tf.get_logger().setLevel("ERROR")
    logging.set_verbosity(logging.ERROR)


def check(package: str, name: str) -> None:
    """Checks that a peer is installed, and limits this process to two cores.

    Args:
        package: name under which the peer is imported.
        name: name of the peer in the message.

    Raises:
        errors.UserError: the package is not installed, or this process may use only one core.
    """
    if importlib.util.find_spec(package) is None:
        raise errors.UserError(
            f"benchmarks: the peer {name} is not installed; run python -m pip install -r "
            "benchmarks/requirements.txt."
        )
    check_cores()


def check_cores() -> None:
    """Limits this process to two cores.

    Raises:
        errors.UserError: this process may use only one core.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < NUM_CORES:
        raise errors.UserError(
            "benchmarks: this process may use only one core; run the benchmark where it may use two."
        )
    os.sched_setaffinity(0, cores[:NUM_CORES])


def measure(name: str, run: Callable, *values: object) -> object:
    """Returns run(*values), and prints the seconds that it takes and the megabytes that it adds at most."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # sets the peak to the memory that is in use
    before, started = _read_peak_mb(), time.monotonic()
    result = run(*values)
    print(f"{name}: {time.monotonic() - started:.1f} s, {_read_peak_mb() - before:.0f} MB")
    return result


def _read_peak_mb() -> float:
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(1024 * int(line.split()[1]) / 1e6 for line in file if line.startswith("VmHWM"))


def run_on_cores(name: str, config, measure: Callable[..., int]) -> int:
    """Runs measure(config) on config.num_cores cores, without TensorFlow's messages; returns its exit code.

    If num_cores is 0, runs `python -m name` with one core and then with two; returns the higher exit code.
    """
    if not config.num_cores:
        command = [sys.executable, "-m", name, *config_flags.to_command_line(config)]
        runs = [subprocess.run([*command, f"--num_cores={count}"], check=False) for count in (1, 2)]
        return max(run.returncode for run in runs)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: config.num_cores])
    use_graphs()
    return measure(config)
