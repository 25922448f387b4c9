"""Devices of a training in one log line, and a warning about a GPU that TensorFlow cannot use."""

from __future__ import annotations

import contextlib
import glob
import pathlib
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr.training.distributed import cluster as cluster_lib
from tfrecord_builder.runtime import cpu

_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")  # of GPUs, as a container gets them
_NVIDIA, _DISPLAY = "0x10de", "0x03"  # vendor and class on the PCI bus


def log_devices(num_cpu_replicas: int, cluster: Optional[cluster_lib.Cluster]) -> None:
    """Logs the devices of this process; called when training is about to start."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and (any(map(glob.glob, _DEVICE_FILES)) or find_on_pci_bus()):
        logging.warning(
            "a GPU is present but TensorFlow cannot use it, so training runs on the CPU; "
            "run python -m estimator_asr.doctor"
        )
    logging.info("%s on %s", _describe_task(cluster), _describe_devices(gpus, num_cpu_replicas))


def find_on_pci_bus(root: str = "/") -> str:
    """Returns the name of the first NVIDIA GPU on the PCI bus, with or without a driver; "" without one."""
    for path in sorted(pathlib.Path(root, "sys/bus/pci/devices").glob("*")):
        with contextlib.suppress(OSError):
            vendor, kind = ((path / file).read_text() for file in ("vendor", "class"))
            if vendor.strip() == _NVIDIA and kind.startswith(_DISPLAY):
                return f"NVIDIA GPU at {path.name}"
    return ""


def _describe_task(cluster):
    if cluster is None:
        return "training"
    if cluster.is_evaluator:
        return "evaluating each checkpoint"
    return f"training as {cluster.name} of {len(cluster.workers)} workers ({', '.join(cluster.workers)})"


def _describe_devices(gpus, num_cpu_replicas):
    if not gpus or num_cpu_replicas > 1:
        replicas = f" as {num_cpu_replicas} replicas" if num_cpu_replicas > 1 else ""
        num_cores = cpu.count_cores()
        return f"1 CPU{replicas}, {num_cores} core{'s' * (num_cores > 1)}"
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
    return f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} ({', '.join(sorted(set(names)))})"
