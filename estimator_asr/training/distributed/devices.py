"""Devices of a training in one log line, and a warning about a GPU that TensorFlow cannot use."""

from __future__ import annotations

import glob
import os
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr.training.distributed import cluster as cluster_lib

# NVIDIA display controllers on the PCI bus, and the device files that a container gets.
_PCI_DEVICES = "/sys/bus/pci/devices/*"
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")


def log_devices(num_cpu_replicas: int, cluster: Optional[cluster_lib.Cluster]) -> None:
    """Logs the devices of this process; called when training is about to start."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and _is_gpu_present():
        logging.warning(
            "a GPU is present but TensorFlow cannot use it, so training runs on the CPU; "
            "run python -m estimator_asr.doctor"
        )
    logging.info("%s on %s", _describe_task(cluster), _describe_devices(gpus, num_cpu_replicas))


def count_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _is_gpu_present():
    """Whether the system has an NVIDIA GPU, with or without a driver."""
    return any(map(glob.glob, _DEVICE_FILES)) or any(
        _read(device, "vendor") == _NVIDIA and _read(device, "class").startswith(_DISPLAY)
        for device in glob.glob(_PCI_DEVICES)
    )


def _read(device, name):
    try:
        with open(os.path.join(device, name), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
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
        return f"1 CPU{replicas}, {count_cores()} core{'s' * (count_cores() > 1)}"
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
    return f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} ({', '.join(sorted(set(names)))})"
