"""CUDA libraries that TensorFlow opens when it looks for a GPU, opened here in the same order."""

from __future__ import annotations

import ctypes
import glob
import os
import sysconfig
from collections.abc import Callable
from typing import NamedTuple, Optional

DRIVER = "libcuda.so.1"


class Library(NamedTuple):
    """A shared library and the wheel that holds it."""

    file: str
    wheel: str


# tensorflow/compiler/xla/stream_executor/platform/default/dso_loader.cc of TensorFlow 2.15, and the wheels of
# the extra tensorflow[and-cuda].
LIBRARIES = (
    Library("libcudart.so.12", "nvidia-cuda-runtime-cu12"),
    Library("libcublas.so.12", "nvidia-cublas-cu12"),
    Library("libcublasLt.so.12", "nvidia-cublas-cu12"),
    Library("libcufft.so.11", "nvidia-cufft-cu12"),
    Library("libcusolver.so.11", "nvidia-cusolver-cu12"),
    Library("libcusparse.so.12", "nvidia-cusparse-cu12"),
    Library("libcudnn.so.8", "nvidia-cudnn-cu12"),
)


def open_library(file: str) -> Optional[ctypes.CDLL]:
    """Returns the library, found as TensorFlow finds it: by the loader, or in NVIDIA's wheels; else None."""
    pattern = os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib", file)
    for path in (file, *glob.glob(pattern)):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def first_missing(opens: Callable[[str], object] = open_library) -> Optional[Library]:
    """Returns the first library that cannot be opened, None if all can."""
    return next((library for library in LIBRARIES if opens(library.file) is None), None)


def cudnn_version(opens: Callable[[str], object] = open_library) -> str:
    """Returns the version of the cuDNN that is found, as 8.9.7; "" if there is none."""
    library = opens("libcudnn.so.8")
    if library is None:
        return ""
    number = int(library.cudnnGetVersion())  # 8907 is 8.9.7, CUDNN_VERSION in cudnn_version.h
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
