"""GPUs that the kernels and libraries of each TensorFlow release support.

A GPU runs machine code for its own major compute capability, and PTX for any earlier one, which its driver
compiles at first use. Measured in the wheels: all kernels of 2.15.1 end with PTX for 8.0, all of 2.21.0 with
PTX for 9.0. The hand-written kernels have machine code for these too (249 of 1,398 modules of 2.21.0), the
small generated ones have not, so a GPU of that capability counts as supported but needs a driver that
compiles PTX. ptxas 12.9 compiles it for 10.0 and 12.0, but refuses that of 2.20.0. No GPU has run them here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import NamedTuple, Optional

from estimator_asr.diagnostics.doctor import findings
from estimator_asr.diagnostics.doctor.libraries import Libraries
from tfrecord_builder import tensorflow_release

# The newest GPUs that cuBLAS and cuDNN of a major cuDNN version know: 8.9 with CUDA 12.2, 9.x with CUDA 12.9.
_NEWEST = {"8": (9, 0), "9": (12, 1)}
_HOPPER, _TURING, _BLACKWELL = (9, 0), (7, 5), (10, 0)


class Coverage(enum.Enum):
    """Where the kernels for a GPU come from."""

    NONE = "there are none"
    COMPILED = "the driver compiles them at first use"
    FULL = "TensorFlow contains them"


class Gpu(NamedTuple):
    """A GPU; the compute capability is None if it is unknown."""

    name: str
    capability: Optional[tuple[int, int]]

    def __str__(self):
        return f"{self.name} (compute capability {_text(self.capability)})" if self.capability else self.name


class Build(NamedTuple):
    """CUDA of a TensorFlow, as tf.sysconfig.get_build_info() has it."""

    release: str  # minor version of TensorFlow
    cuda: str
    cudnn: str  # major version
    kernels: tuple[str, ...]  # sm_NN: machine code, compute_NN: PTX

    @classmethod
    def of(cls, release: str, info: Mapping) -> Optional[Build]:
        """Returns the build of the installed TensorFlow, None without CUDA."""
        if not info.get("is_cuda_build"):
            return None
        cudnn = info["cudnn_version"].split(".")[0]
        return cls(release, info["cuda_version"], cudnn, tuple(info["cuda_compute_capabilities"]))


# One for each of tensorflow_release.RELEASES.
BUILDS = {
    "2.15": Build("2.15", "12.2", "8", ("sm_50", "sm_60", "sm_70", "sm_75", "compute_80")),
    "2.21": Build("2.21", "12.5.1", "9", ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")),
}


def coverage(build: Build, capability: tuple[int, int]) -> Coverage:
    """Returns where the kernels of a build come from on a GPU."""
    oldest, newest = _supported(build)
    if not oldest <= capability <= newest:
        return Coverage.NONE
    return Coverage.FULL if capability[0] <= _capabilities(build)[-1][0] else Coverage.COMPILED


def judge(gpu: Gpu, build: Build, libraries: Libraries) -> findings.Finding:
    """Returns whether a GPU can run the kernels of a build with these libraries, and what it needs."""
    covered = coverage(build, gpu.capability) if gpu.capability else Coverage.FULL
    if covered is Coverage.NONE:
        return findings.problem(_refuse(gpu, build))
    complaint = _check_driver(gpu, build, libraries.driver) or _check_cudnn(gpu, libraries.cudnn)
    if complaint:
        return findings.problem(complaint)
    if covered is Coverage.FULL:
        return findings.ok(str(gpu))
    # XLA of 2.21 makes PTX 8.5, which its LLVM refuses for Blackwell (tensorflow/tensorflow#111958).
    without_xla = " and train without --xla" if gpu.capability >= _BLACKWELL else ""
    return findings.warning(
        f"{gpu}: TensorFlow {build.release} has no kernels for this GPU, so the driver compiles them at "
        f"first use, which takes minutes; set CUDA_CACHE_MAXSIZE=4294967296 to keep them all{without_xla}"
    )


def _refuse(gpu, build):
    oldest, newest = map(_text, _supported(build))
    others = [other for other in BUILDS if coverage(BUILDS[other], gpu.capability) is not Coverage.NONE]
    release = tensorflow_release.find(others[-1]) if others else None
    fix = f"install TensorFlow {release}" if release else "use another GPU, or train on the CPU"
    return (
        f"{gpu.name} has compute capability {_text(gpu.capability)}, TensorFlow {build.release} supports "
        f"{oldest} to {newest}; {fix}"
    )


def _check_driver(gpu, build, driver):
    """Returns what is wrong with a driver; PTX needs one of the CUDA version that it was made with.

    CUDA 12.8 is the first for Blackwell.
    """
    capability, needed = gpu.capability or (0, 0), (12, 0)
    if capability >= _HOPPER:
        needed = max(_version(build.cuda)[:2], (12, 8) if capability >= _BLACKWELL else needed)
    if driver is None or driver >= needed:
        return ""
    return (
        f"{gpu}: the driver supports CUDA {_text(driver)}, TensorFlow {build.release} needs {_text(needed)} "
        "for this GPU; install a newer NVIDIA driver"
    )


def _check_cudnn(gpu, cudnn):
    """Returns what is wrong with cuDNN: 9.7 is the first for Blackwell, 9.10 the last before Turing."""
    if cudnn is None or gpu.capability is None or cudnn[0] < 9:
        return ""
    if gpu.capability < _TURING and cudnn >= (9, 11):
        wheel = "nvidia-cudnn-cu12<9.11"
    elif gpu.capability >= _BLACKWELL and cudnn < (9, 7):
        wheel = "nvidia-cudnn-cu12>=9.7,<10"
    else:
        return ""
    return f"{gpu}: cuDNN {_text(cudnn)} does not support this GPU; pip install '{wheel}'"


def _supported(build):
    """Returns the oldest and the newest compute capability."""
    capabilities = _capabilities(build)
    return capabilities[0], max(capabilities[-1], _NEWEST.get(build.cudnn, (0, 0)))


def _capabilities(build):
    numbers = [re.search(r"(\d+)(\d)", kernel) for kernel in build.kernels]
    return sorted((int(number[1]), int(number[2])) for number in numbers)


def _version(text):
    return tuple(map(int, text.split(".")))


def _text(version):
    return ".".join(map(str, version))
