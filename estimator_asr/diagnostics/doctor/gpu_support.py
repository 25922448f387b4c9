"""Whether the installed TensorFlow was built for a GPU, by its build information.

A GPU runs machine code for its own major compute capability, and PTX for any earlier one, which its driver
compiles at first use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Optional

from estimator_asr.diagnostics.doctor import findings


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

    @property
    def capabilities(self) -> list[tuple[int, int]]:
        """Compute capabilities of the kernels, the oldest first."""
        numbers = [re.search(r"(\d+)(\d)", kernel) for kernel in self.kernels]
        return sorted((int(number[1]), int(number[2])) for number in numbers)


def judge(gpu: Gpu, build: Build, driver: Optional[tuple[int, int]]) -> findings.Finding:
    """Returns whether a GPU can run the kernels of a build, and what it needs.

    Args:
        gpu: the GPU.
        build: of the installed TensorFlow.
        driver: CUDA version that the driver supports, None if it is unknown.
    """
    oldest, newest = build.capabilities[0], build.capabilities[-1]
    capability = gpu.capability or newest
    if capability < oldest:
        return findings.problem(
            f"{gpu}: TensorFlow {build.release} was built for {_text(oldest)} and newer; use another GPU or "
            "release of TensorFlow, or train on the CPU"
        )
    is_compiled = capability[0] > newest[0]
    cuda = tuple(map(int, build.cuda.split(".")[:2]))
    needed = cuda if is_compiled else (cuda[0], 0)  # PTX needs a driver of the CUDA that made it
    if driver and driver < needed:
        return findings.problem(
            f"{gpu}: the driver supports CUDA {_text(driver)}, TensorFlow {build.release} needs "
            f"{_text(needed)} for this GPU; install a newer NVIDIA driver"
        )
    if not is_compiled:
        return findings.ok(str(gpu))
    return findings.warning(
        f"{gpu}: TensorFlow {build.release} has no kernels for this GPU, so the driver compiles them at "
        "first use, which takes minutes; set CUDA_CACHE_MAXSIZE=4294967296 to keep them all, and train "
        "without --xla if it fails"
    )


def _text(version):
    return ".".join(map(str, version))
