from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.training.distributed import cluster, devices


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Sets what the machine has; returns the lines that are logged."""
    lines = []
    for level in ("info", "warning"):
        monkeypatch.setattr(devices.logging, level, lambda text, *values: lines.append(text % values))
    monkeypatch.setattr(devices, "_DEVICE_FILES", (str(tmp_path / "nvidia[0-9]*"),))
    monkeypatch.setattr(devices.cpu, "count_cores", lambda: 2)

    def set_machine(num_gpus=0, on_pci_bus="", device_file=False):
        gpus = [tf.config.PhysicalDevice(f"GPU:{i}", "GPU") for i in range(num_gpus)]
        monkeypatch.setattr(devices.tf.config, "list_physical_devices", lambda kind: gpus)
        details = {"device_name": "NVIDIA T4"}
        monkeypatch.setattr(devices.tf.config.experimental, "get_device_details", lambda gpu: details)
        monkeypatch.setattr(devices, "find_on_pci_bus", lambda: on_pci_bus)
        if device_file:
            (tmp_path / "nvidia0").touch()
        return lines

    return set_machine


def test_a_cpu_is_logged_in_one_line(machine):
    lines = machine()
    devices.log_devices(1, None)
    assert lines == ["training on 1 CPU, 2 cores"]


def test_replicas_and_gpus_are_named(machine):
    lines = machine()
    devices.log_devices(2, None)
    machine(num_gpus=2)
    devices.log_devices(1, None)
    assert lines == ["training on 1 CPU as 2 replicas, 2 cores", "training on 2 GPUs (NVIDIA T4)"]


def test_workers_and_the_evaluator_are_named(machine):
    lines = machine()
    for rank in (1, None):
        devices.log_devices(1, cluster.Cluster(("a:1", "b:2"), "e:9", rank))
    assert lines == [
        "training as worker-1 of 2 workers (a:1, b:2) on 1 CPU, 2 cores",
        "evaluating each checkpoint on 1 CPU, 2 cores",
    ]


IDLE = (
    "a GPU is present but TensorFlow cannot use it, so training runs on the CPU; "
    "run python -m estimator_asr.doctor"
)


@pytest.mark.parametrize("found", [{"device_file": True}, {"on_pci_bus": "NVIDIA GPU at 0000:01:00.0"}])
def test_a_gpu_that_tensorflow_cannot_use_is_warned_about(machine, found):
    lines = machine(**found)
    devices.log_devices(1, None)
    assert lines == [IDLE, "training on 1 CPU, 2 cores"]
