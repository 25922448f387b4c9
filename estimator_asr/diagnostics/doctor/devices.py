"""Devices that TensorFlow sees, whether it supports them, and why it does not see a GPU of the machine."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.diagnostics.doctor import findings, gpu_support, libraries
from estimator_asr.training.distributed import strategies

_QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader")
_SHOW = "TF_CPP_MIN_LOG_LEVEL=0 python -c 'import tensorflow as t; t.config.list_physical_devices()'"


class Machine(NamedTuple):
    """Facts about GPUs and CUDA."""

    tensorflow: str  # version
    build: Optional[gpu_support.Build]  # None if TensorFlow is built without CUDA
    devices: Sequence[str]  # those that TensorFlow lists, without GPUs
    gpus: Sequence[gpu_support.Gpu]  # GPUs that TensorFlow lists
    present: Optional[gpu_support.Gpu]  # first NVIDIA GPU of the machine
    visible: Optional[str]  # CUDA_VISIBLE_DEVICES; None if it is not set
    libraries: libraries.Libraries


def gather() -> Machine:
    """Returns the facts about this machine."""
    build = gpu_support.Build.of(".".join(tf.__version__.split(".")[:2]), tf.sysconfig.get_build_info())
    listed = tf.config.list_physical_devices()
    return Machine(
        tensorflow=tf.__version__,
        build=build,
        devices=[_name(device) for device in listed if device.device_type != "GPU"],
        gpus=[_describe(device) for device in listed if device.device_type == "GPU"],
        present=find_gpu(),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        libraries=libraries.find(build.cudnn) if build else libraries.Libraries((), None, None),
    )


def judge(machine: Machine) -> Iterator[findings.Finding]:
    """Yields what the devices mean for training."""
    if machine.build:
        yield findings.ok(_describe_build(machine))
    yield from map(findings.ok, machine.devices)
    for gpu in machine.gpus:
        yield (
            gpu_support.judge(gpu, machine.build, machine.libraries.driver)
            if machine.build
            else findings.ok(str(gpu))
        )
    if machine.gpus:
        return
    if any(device.startswith("XLA_GPU") for device in machine.devices):
        yield findings.problem(
            "only XLA_GPU is listed: XLA sees the GPU, but TensorFlow could not load the libraries of its "
            f"own kernels and runs on the CPU; {_fix(machine)}"
        )
    elif machine.present:
        yield findings.problem(
            f"TensorFlow does not see the {machine.present.name} and runs on the CPU; {_fix(machine)}"
        )
    else:
        yield findings.ok("no NVIDIA GPU in this machine, training runs on the CPU")


def find_gpu(root: str = "/") -> Optional[gpu_support.Gpu]:
    """Returns the first NVIDIA GPU, by nvidia-smi or else by the PCI bus; None if there is none."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(_QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
        # A line is "NVIDIA T4, 7.5" or "NVIDIA T4, [N/A]"; without a GPU it is "No devices were found".
        line = re.search(r"^(.+), (?:(\d+)\.(\d+)|\[.*\])$", listed, re.MULTILINE)
        if line:
            return gpu_support.Gpu(line[1], (int(line[2]), int(line[3])) if line[2] else None)
    name = strategies.find_on_pci_bus(root)
    return gpu_support.Gpu(name, None) if name else None


def _describe_build(machine):
    build, (missing, cudnn, driver) = machine.build, machine.libraries
    num_wanted = len(libraries.wanted(build.cudnn))
    versions = {"cuDNN": cudnn, "a driver for CUDA": driver}
    found = [f"{kind} {'.'.join(map(str, version))}" for kind, version in versions.items() if version]
    return (
        f"TensorFlow {machine.tensorflow} is built for CUDA {build.cuda} and cuDNN {build.cudnn}; "
        + ", ".join([f"{num_wanted - len(missing)} of its {num_wanted} libraries are installed", *found])
    )


def _fix(machine):
    build, (missing, _, _) = machine.build, machine.libraries
    install = f"pip install 'tensorflow[and-cuda]=={machine.tensorflow}'"
    if machine.visible is not None and machine.visible.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={machine.visible!r} hides it: unset CUDA_VISIBLE_DEVICES"
    if not build:
        return f"this TensorFlow is built without CUDA: {install}"
    if libraries.DRIVER in missing:
        return (
            f"the driver's {libraries.DRIVER} is missing: install NVIDIA's driver (apt-get install "
            "nvidia-driver-570), or start the container with --gpus all"
        )
    if machine.present:
        finding = gpu_support.judge(machine.present, build, machine.libraries.driver)
        if finding.level == findings.PROBLEM:
            return finding.text
    if missing:
        wheels = ", ".join(libraries.wheels(missing))
        return f"{', '.join(missing)} cannot be opened: {install} installs what is missing ({wheels})"
    return f"all libraries open; TensorFlow's own log says more: {_SHOW}"


def _describe(device):
    details = tf.config.experimental.get_device_details(device)
    return gpu_support.Gpu(
        f"{_name(device)} {details.get('device_name', '')}".strip(), details.get("compute_capability")
    )


def _name(device):
    return device.name.replace("/physical_device:", "")
