"""CUDA libraries that TensorFlow opens: which are missing, and their versions."""

from __future__ import annotations

import ctypes
import glob
import os
import sysconfig
from typing import NamedTuple, Optional

DRIVER = "libcuda.so.1"
# What TensorFlow opens after the driver (dso_loader.cc, cuda_config.h), and the wheels that contain it.
_WHEELS = {
    "libcudart.so.12": "nvidia-cuda-runtime-cu12",
    "libcublas.so.12": "nvidia-cublas-cu12",
    "libcublasLt.so.12": "nvidia-cublas-cu12",
    "libcufft.so.11": "nvidia-cufft-cu12",
    "libcusolver.so.11": "nvidia-cusolver-cu12",
    "libcusparse.so.12": "nvidia-cusparse-cu12",
}
_CUDNN_WHEEL = "nvidia-cudnn-cu12"
_CUDNN_MAJORS = "8", "9"


class Libraries(NamedTuple):
    """CUDA libraries of this machine, as TensorFlow finds them."""

    missing: tuple[str, ...]  # those that cannot be opened
    cudnn: Optional[tuple[int, int, int]]  # version, of whatever major version is installed
    driver: Optional[tuple[int, int]]  # CUDA version that the driver supports


def find(cudnn: str) -> Libraries:
    """Returns the libraries for a TensorFlow that wants this major version of cuDNN."""
    opened = {file: open_library(file) for file in wanted(cudnn)}
    majors = (cudnn, *_CUDNN_MAJORS)
    found = next(filter(None, (open_library(f"libcudnn.so.{major}") for major in majors)), None)
    missing = tuple(file for file, library in opened.items() if library is None)
    return Libraries(missing, cudnn_version(found), driver_version(opened[DRIVER]))


def wanted(cudnn: str) -> tuple[str, ...]:
    """Returns the files that TensorFlow opens, the driver's first."""
    return (DRIVER, *_WHEELS, f"libcudnn.so.{cudnn}")


def wheels(files: tuple[str, ...]) -> list[str]:
    """Returns the wheels that contain these files."""
    return sorted({_WHEELS.get(file, _CUDNN_WHEEL) for file in files})


def open_library(file: str) -> Optional[ctypes.CDLL]:
    """Returns the library, found as TensorFlow finds it: by the loader, or in NVIDIA's wheels; else None."""
    pattern = os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib", file)
    for path in (file, *glob.glob(pattern)):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def cudnn_version(library: Optional[ctypes.CDLL]) -> Optional[tuple[int, int, int]]:
    """Returns the version of a cuDNN: 8907 is 8.9.7, 90300 is 9.3.0 (CUDNN_VERSION in cudnn_version.h)."""
    if library is None:
        return None
    number = int(library.cudnnGetVersion())
    major, rest = divmod(number, 1000 if number < 10000 else 10000)
    return major, *divmod(rest, 100)


def driver_version(library: Optional[ctypes.CDLL]) -> Optional[tuple[int, int]]:
    """Returns the CUDA version that a driver supports: 12040 is 12.4; None if it cannot say."""
    number = ctypes.c_int(0)
    if library is None or library.cuDriverGetVersion(ctypes.byref(number)) or not number.value:
        return None
    return number.value // 1000, number.value % 1000 // 10
