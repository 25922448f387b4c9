"""Says in one line which devices will train, and warns where a GPU stands idle."""

from __future__ import annotations

import glob
import os
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr.training.distributed import cluster as cluster_lib

# Display controllers of NVIDIA, as the PCI bus names them, and the devices that a container gets.
_PCI_DEVICES = "/sys/bus/pci/devices/*"
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")


def log_devices(num_cpu_replicas: int, cluster: Optional[cluster_lib.Cluster]) -> None:
    """Logs the devices of this process; call it when training is about to start."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and is_gpu_present():
        logging.warning(
            "GPU hardware is present but TensorFlow sees none, so the CPU will train; "
            "run python -m estimator_asr.doctor"
        )
    logging.info("%s on %s", _describe_task(cluster), _describe_devices(gpus, num_cpu_replicas))


def is_gpu_present() -> bool:
    """Whether the system knows of an NVIDIA GPU, with or without a driver."""
    if any(glob.glob(pattern) for pattern in _DEVICE_FILES):
        return True
    for device in glob.glob(_PCI_DEVICES):
        if _read(device, "vendor") == _NVIDIA and _read(device, "class").startswith(_DISPLAY):
            return True
    return False


def count_cores() -> int:
    """Returns the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _describe_task(cluster):
    if cluster is None:
        return "training"
    if cluster.is_evaluator:
        return "evaluating each checkpoint"
    return f"training as {cluster.name} of {len(cluster.workers)} workers ({', '.join(cluster.workers)})"


def _describe_devices(gpus, num_cpu_replicas):
    if not gpus or num_cpu_replicas > 1:
        replicas = f" as {num_cpu_replicas} replicas" if num_cpu_replicas > 1 else ""
        return f"1 CPU{replicas}, {count_cores()} core{'s' * (count_cores() > 1)}"
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
    return f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} ({', '.join(sorted(set(names)))})"


def _read(device, name):
    try:
        with open(os.path.join(device, name), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
