"""Checks whether TensorFlow was built for the installed devices, and finds out why a GPU is not used."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.monitoring.diagnostics.doctor import findings
from estimator_asr.training.distributed import strategies

_QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader")
_OPTIONAL = "libnvinfer"  # TensorRT, which training does not need
_LIST_DEVICES = "import tensorflow as t; t.config.list_physical_devices()"


class Gpu(NamedTuple):
    """A GPU; its compute capability (major, minor) is None if unknown."""

    name: str
    capability: Optional[tuple[int, int]]

    def __str__(self):
        return f"{self.name} (compute capability {_text(self.capability)})" if self.capability else self.name


class Machine(NamedTuple):
    """Facts about this machine, as TensorFlow and the driver report them."""

    tensorflow: str  # TensorFlow's version
    build: Mapping  # result of tf.sysconfig.get_build_info()
    devices: Sequence[str]  # names of all devices that TensorFlow lists, except GPUs
    gpus: Sequence[Gpu]  # GPUs that TensorFlow lists
    present: Optional[Gpu]  # first NVIDIA GPU in the machine, whether or not TensorFlow lists it
    visible: Optional[str]  # CUDA_VISIBLE_DEVICES; None if unset
    driver: Optional[tuple[int, int]]  # CUDA version that the driver supports; None if there is no driver
    cudnn: str  # installed version of cuDNN; "" if unknown
    missing: Sequence[str] = ()  # libraries that TensorFlow needs for GPUs but cannot open


def gather() -> Machine:
    """Collects facts about this machine."""
    build, present, devices, gpus = tf.sysconfig.get_build_info(), find_gpu(), [], []
    for device in tf.config.list_physical_devices():
        name = device.name.replace("/physical_device:", "")
        if device.device_type != "GPU":
            devices.append(name)
        else:
            details = tf.config.experimental.get_device_details(device)
            name = f"{name} {details.get('device_name', '')}".strip()
            gpus.append(Gpu(name, details.get("compute_capability")))
    return Machine(
        tensorflow=tf.__version__,
        build=build,
        devices=devices,
        gpus=gpus,
        present=present,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        driver=read_driver(),
        cudnn=read_cudnn(build.get("cudnn_version", "")),
        missing=list_missing_libraries() if present and not gpus else (),
    )


def judge(machine: Machine) -> Iterator[findings.Finding]:
    """Yields findings about CUDA versions, about each device, and about a GPU that training cannot use."""
    build = machine.build
    if build.get("is_cuda_build"):
        driver = f"driver for CUDA {_text(machine.driver)}" if machine.driver else "no driver"
        cudnn = f"cuDNN {machine.cudnn}" if machine.cudnn else "no cuDNN"
        text = f"is built for CUDA {build['cuda_version']} and cuDNN {build['cudnn_version']}"
        yield findings.ok(f"TensorFlow {machine.tensorflow} {text}; installed: {driver}, {cudnn}")
    yield from map(findings.ok, machine.devices)
    for gpu in machine.gpus:
        yield judge_gpu(gpu, machine)
    if machine.present and not machine.gpus:
        text = f"TensorFlow does not see the {machine.present.name} and runs on the CPU"
        yield findings.problem(f"{text}; {_explain_unseen(machine)}")
    elif not machine.gpus:
        yield findings.ok("this machine has no NVIDIA GPU, so training runs on the CPU")


def judge_gpu(gpu: Gpu, machine: Machine) -> findings.Finding:
    """Returns a finding about a GPU: ok if TensorFlow can use it, otherwise it says what to install or set.

    A GPU runs machine code built for its own major compute capability. At first use, its driver can also
    compile PTX for an earlier capability, if the driver supports the CUDA version that generated the PTX.
    """
    if not machine.build.get("is_cuda_build"):
        return findings.ok(str(gpu))
    kernels = machine.build["cuda_compute_capabilities"]  # sm_NN is machine code, compute_NN is PTX
    capabilities = [divmod(int(re.search(r"\d+", kernel)[0]), 10) for kernel in kernels]
    oldest, newest = min(capabilities), max(capabilities)
    capability = gpu.capability or newest
    if capability < oldest:
        return findings.problem(
            f"{gpu}: TensorFlow {machine.tensorflow} was built for compute capability {_text(oldest)} and "
            "newer; use another GPU or another TensorFlow release, or train on the CPU"
        )
    is_compiled = capability[0] > newest[0]
    major, minor = map(int, machine.build["cuda_version"].split(".")[:2])
    needed = (major, minor if is_compiled else 0)
    if machine.driver and machine.driver < needed:
        return findings.problem(
            f"{gpu}: the driver supports CUDA {_text(machine.driver)}, but TensorFlow {machine.tensorflow} "
            f"needs CUDA {_text(needed)} for this GPU; install a newer NVIDIA driver"
        )
    if not is_compiled:
        return findings.ok(str(gpu))
    return findings.warning(
        f"{gpu}: TensorFlow {machine.tensorflow} has no kernels for this GPU, so the driver compiles them at "
        "first use, which takes minutes; set CUDA_CACHE_MAXSIZE=4294967296 to keep all compiled "
        "kernels; if training with --xla fails, leave --xla out"
    )


def _explain_unseen(machine):
    install = f"pip install 'tensorflow[and-cuda]=={machine.tensorflow}'"
    if machine.visible is not None and machine.visible.split(",")[0].strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={machine.visible!r} hides the GPU; unset CUDA_VISIBLE_DEVICES"
    if not machine.build.get("is_cuda_build"):
        return f"this TensorFlow was built without CUDA; run {install}"
    if machine.driver is None:
        return "its driver cannot be loaded; install NVIDIA's driver, or start the container with --gpus all"
    finding = judge_gpu(machine.present, machine)
    if finding.level == findings.PROBLEM:
        return finding.text
    if machine.missing:
        return f"{', '.join(machine.missing)} cannot be opened; to install the CUDA libraries, run {install}"
    return f"to read TensorFlow's own log, run TF_CPP_MIN_LOG_LEVEL=0 python -c '{_LIST_DEVICES}'"


def find_gpu(root: str = "/") -> Optional[Gpu]:
    """Returns the first NVIDIA GPU, found with nvidia-smi or else on the PCI bus; None if there is no GPU."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        output = subprocess.run(_QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
        # The output looks like "NVIDIA T4, 7.5" or "NVIDIA T4, [N/A]", or is "No devices were found".
        line = re.search(r"^(.+), (?:(\d+)\.(\d+)|\[.*\])$", output, re.MULTILINE)
        if line:
            return Gpu(line[1], (int(line[2]), int(line[3])) if line[2] else None)
    name = strategies.find_on_pci_bus(root)
    return Gpu(name, None) if name else None


def list_missing_libraries() -> list[str]:
    """Returns the libraries that TensorFlow cannot open, as logged by a new process (dso_loader.cc)."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1"}
    command, options = [sys.executable, "-c", _LIST_DEVICES], {"capture_output": True, "text": True}
    with contextlib.suppress(subprocess.SubprocessError):
        log = subprocess.run(command, env=environment, timeout=120, **options).stderr
        names = re.findall(r"Could not load dynamic library '(.+?)'", log)
        return [name for name in dict.fromkeys(names) if not name.startswith(_OPTIONAL)]
    return []


def read_driver() -> Optional[tuple[int, int]]:
    """Returns the CUDA version that the driver supports (12040 means 12.4); None if there is no driver."""
    number = ctypes.c_int(0)
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    return (number.value // 1000, number.value % 1000 // 10) if number.value else None


def read_cudnn(major: str) -> str:
    """Returns cuDNN's version (cudnn.h: 8907 is 8.9.7, 90300 is 9.3.0); "" if cuDNN cannot be opened."""
    try:  # if TensorFlow has opened the library, the loader finds it by name, wherever the file is
        number = ctypes.CDLL(f"libcudnn.so.{major.split('.')[0]}").cudnnGetVersion()
    except OSError:
        return ""
    major_number, minor_and_patch = divmod(number, 1000 if number < 10000 else 10000)
    return _text((major_number, *divmod(minor_and_patch, 100)))


def _text(version):
    return ".".join(map(str, version))
