"""Devices that TensorFlow sees, and why it does not see a GPU that is there."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.diagnostics.doctor import findings, libraries

_NVIDIA = "0x10de"  # PCI vendor
_DISPLAY = "0x03"  # PCI class of display controllers
# CUDA 12.x runs on this driver by minor-version compatibility (NVIDIA, CUDA Compatibility).
_OLDEST_DRIVER = 525
_SHOW = "TF_CPP_MIN_LOG_LEVEL=0 python -c 'import tensorflow as t; t.config.list_physical_devices()'"


class Machine(NamedTuple):
    """What is known before anything is judged.

    Attributes:
        devices: pairs of type and name that TensorFlow lists.
        hardware: NVIDIA GPUs that the system lists.
        visible: CUDA_VISIBLE_DEVICES; None if it is not set.
        build: tf.sysconfig.get_build_info().
        has_driver: whether the driver's library opens.
        driver: its version, "" if unknown.
        missing: first CUDA library that cannot be opened.
        cudnn: version of the cuDNN that is found.
    """

    devices: Sequence[tuple[str, str]]
    hardware: Sequence[str]
    visible: Optional[str]
    build: Mapping[str, object]
    has_driver: bool
    driver: str
    missing: Optional[libraries.Library]
    cudnn: str


def gather() -> Machine:
    """Looks at this machine."""
    return Machine(
        devices=[(device.device_type, _name(device)) for device in tf.config.list_physical_devices()],
        hardware=find_hardware(),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        build=dict(tf.sysconfig.get_build_info()),
        has_driver=libraries.open_library(libraries.DRIVER) is not None,
        driver=read_driver(),
        missing=libraries.first_missing(),
        cudnn=libraries.cudnn_version(),
    )


def judge(machine: Machine) -> Iterator[findings.Finding]:
    """Yields what the devices mean for training."""
    build = machine.build
    if build.get("is_cuda_build"):
        found = f"cuDNN {machine.cudnn} is found" if machine.cudnn else "no cuDNN is found"
        versions = f"CUDA {build.get('cuda_version')} and cuDNN {build.get('cudnn_version')}"
        yield findings.ok(f"TensorFlow is built for {versions}; {found}")
    for kind, name in machine.devices:
        yield findings.ok(f"{kind} {name}")
    kinds = {kind for kind, _ in machine.devices}
    if "GPU" in kinds:
        return
    if "XLA_GPU" in kinds:
        yield findings.problem(
            "there is XLA_GPU but no GPU: XLA has found the card, but TensorFlow could not open the "
            f"libraries of its own kernels, so all runs on the CPU; {_cure(machine)}"
        )
    elif machine.hardware:
        yield findings.problem(
            f"{machine.hardware[0]} is there, but TensorFlow does not see it and runs on the CPU; "
            f"{_cure(machine)}"
        )
    else:
        yield findings.ok("no NVIDIA GPU in this machine, training runs on the CPU")


def find_hardware(root: str = "/") -> list[str]:
    """Returns the NVIDIA GPUs that the system lists, by /proc, the PCI bus or nvidia-smi."""
    described = glob.glob(os.path.join(root, "proc/driver/nvidia/gpus/*/information"))
    models = [re.search(r"Model:\s*(.+)", _read(path)) for path in sorted(described)]
    names = [f"GPU {match.group(1)}" for match in models if match]
    return names or _on_pci_bus(root) or _by_nvidia_smi()


def read_driver(root: str = "/") -> str:
    """Returns the version of NVIDIA's kernel driver, "" if there is none."""
    match = re.search(
        r"Kernel Module.*?\s(\d+\.[\d.]+)\s", _read(os.path.join(root, "proc/driver/nvidia/version"))
    )
    return match.group(1) if match else ""


def _cure(machine):
    if machine.visible is not None and machine.visible.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={machine.visible!r} hides it: unset CUDA_VISIBLE_DEVICES"
    if not machine.build.get("is_cuda_build"):
        return "this TensorFlow is built without CUDA: pip install tensorflow==2.15.1"
    if not machine.has_driver:
        return (
            f"the driver's {libraries.DRIVER} is missing: install NVIDIA's driver (apt-get install "
            "nvidia-driver-535), or start the container with --gpus all"
        )
    if machine.missing:
        return (
            f"{machine.missing.file} cannot be opened: pip install 'tensorflow[and-cuda]==2.15.1' brings it "
            f"(in {machine.missing.wheel})"
        )
    if machine.driver and int(machine.driver.split(".")[0]) < _OLDEST_DRIVER:
        return f"driver {machine.driver} is too old for CUDA 12: install {_OLDEST_DRIVER} or later"
    return f"all libraries open; TensorFlow itself says more: {_SHOW}"


def _name(device):
    details = tf.config.experimental.get_device_details(device) if device.device_type == "GPU" else {}
    name = device.name.replace("/physical_device:", "")
    return f"{name} {details['device_name']}" if "device_name" in details else name


def _on_pci_bus(root):
    cards = []
    for path in sorted(glob.glob(os.path.join(root, "sys/bus/pci/devices/*"))):
        vendor, kind = (_read(os.path.join(path, file)) for file in ("vendor", "class"))
        if vendor.strip() == _NVIDIA and kind.startswith(_DISPLAY):
            cards.append(f"an NVIDIA GPU at {os.path.basename(path)}")
    return cards


def _by_nvidia_smi():
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"GPU \d+: ([^(\n]+?) \(", listed.stdout)


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
