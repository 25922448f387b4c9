"""Devices that TensorFlow sees, and why it does not see a GPU of the machine."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.diagnostics.doctor import findings
from estimator_asr.training.distributed import devices as training_devices

# CUDA 12.x runs on this driver by minor-version compatibility (NVIDIA, CUDA Compatibility).
_OLDEST_DRIVER = 525
_DRIVER = "libcuda.so.1"
_CUDNN = "libcudnn.so.8"
# The libraries that TensorFlow 2.15 opens, in its order (dso_loader.cc), and the wheels that contain them.
LIBRARIES = {
    _DRIVER: "",
    "libcudart.so.12": "nvidia-cuda-runtime-cu12",
    "libcublas.so.12": "nvidia-cublas-cu12",
    "libcublasLt.so.12": "nvidia-cublas-cu12",
    "libcufft.so.11": "nvidia-cufft-cu12",
    "libcusolver.so.11": "nvidia-cusolver-cu12",
    "libcusparse.so.12": "nvidia-cusparse-cu12",
    _CUDNN: "nvidia-cudnn-cu12",
}
_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
_SHOW = "TF_CPP_MIN_LOG_LEVEL=0 python -c 'import tensorflow as t; t.config.list_physical_devices()'"


class Machine(NamedTuple):
    """Facts about GPUs and CUDA."""

    devices: Sequence[tuple[str, str]]  # pairs of type and name that TensorFlow lists
    gpu: str  # name of the first NVIDIA GPU of the machine, "" if there is none
    driver: str  # version of NVIDIA's driver, "" if unknown
    visible: Optional[str]  # CUDA_VISIBLE_DEVICES; None if it is not set
    build: Mapping[str, object]  # tf.sysconfig.get_build_info()
    missing: str  # first of LIBRARIES that cannot be opened, "" if all can
    cudnn: str  # version of the installed cuDNN, "" if there is none


def gather() -> Machine:
    """Returns the facts about this machine."""
    return Machine(
        [(device.device_type, _name(device)) for device in tf.config.list_physical_devices()],
        *find_gpu(),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        build=dict(tf.sysconfig.get_build_info()),
        missing=next((file for file in LIBRARIES if open_library(file) is None), ""),
        cudnn=cudnn_version(open_library(_CUDNN)),
    )


def judge(machine: Machine) -> Iterator[findings.Finding]:
    """Yields what the devices mean for training."""
    build = machine.build
    if build.get("is_cuda_build"):
        found = f"cuDNN {machine.cudnn} is installed" if machine.cudnn else "no cuDNN is installed"
        versions = f"CUDA {build.get('cuda_version')} and cuDNN {build.get('cudnn_version')}"
        yield findings.ok(f"TensorFlow is built for {versions}; {found}")
    for kind, name in machine.devices:
        yield findings.ok(f"{kind} {name}")
    kinds = {kind for kind, _ in machine.devices}
    if "GPU" in kinds:
        return
    if "XLA_GPU" in kinds:
        yield findings.problem(
            "only XLA_GPU is listed: XLA sees the GPU, but TensorFlow could not load the libraries of its "
            f"own kernels and runs on the CPU; {_fix(machine)}"
        )
    elif machine.gpu:
        yield findings.problem(
            f"TensorFlow does not see the {machine.gpu} and runs on the CPU; {_fix(machine)}"
        )
    else:
        yield findings.ok("no NVIDIA GPU in this machine, training runs on the CPU")


def find_gpu(root: str = "/") -> tuple[str, str]:
    """Returns the first NVIDIA GPU and the driver's version, by nvidia-smi or the PCI bus; "" if unknown."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(_QUERY, capture_output=True, text=True, timeout=30, check=True)
        name, driver = listed.stdout.splitlines()[0].rsplit(", ", 1)
        return name, driver
    return training_devices.find_on_pci_bus(root), ""


def open_library(file: str) -> Optional[ctypes.CDLL]:
    """Returns the library, found as TensorFlow finds it: by the loader, or in NVIDIA's wheels; else None."""
    pattern = os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib", file)
    for path in (file, *glob.glob(pattern)):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def cudnn_version(library: Optional[ctypes.CDLL]) -> str:
    """Returns the version of a cuDNN, as 8.9.7; "" if there is none."""
    if library is None:
        return ""
    number = int(library.cudnnGetVersion())  # 8907 is 8.9.7, CUDNN_VERSION in cudnn_version.h
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


def _fix(machine):
    if machine.visible is not None and machine.visible.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={machine.visible!r} hides it: unset CUDA_VISIBLE_DEVICES"
    if not machine.build.get("is_cuda_build"):
        return "this TensorFlow is built without CUDA: pip install tensorflow==2.15.1"
    if machine.missing == _DRIVER:
        return (
            f"the driver's {_DRIVER} is missing: install NVIDIA's driver (apt-get install "
            "nvidia-driver-535), or start the container with --gpus all"
        )
    if machine.missing:
        return (
            f"{machine.missing} cannot be opened: pip install 'tensorflow[and-cuda]==2.15.1' installs it "
            f"(in {LIBRARIES[machine.missing]})"
        )
    if machine.driver and int(machine.driver.split(".")[0]) < _OLDEST_DRIVER:
        return f"driver {machine.driver} is too old for CUDA 12: install {_OLDEST_DRIVER} or later"
    return f"all libraries open; TensorFlow's own log says more: {_SHOW}"


def _name(device):
    details = tf.config.experimental.get_device_details(device) if device.device_type == "GPU" else {}
    name = device.name.replace("/physical_device:", "")
    return f"{name} {details['device_name']}" if "device_name" in details else name
