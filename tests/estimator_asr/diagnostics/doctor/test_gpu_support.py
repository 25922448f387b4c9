"""GPUs are simulated by their name and compute capability: there is none on the machine of the tests."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.diagnostics.doctor import gpu_support

OLD = gpu_support.Build("2.15", "12.2", "8", ("sm_50", "sm_60", "sm_70", "sm_75", "compute_80"))
NEW = gpu_support.Build("2.21", "12.5.1", "9", ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"))


def judge(build, capability, driver=(12, 8)):
    return tuple(gpu_support.judge(gpu_support.Gpu("NVIDIA X", capability), build, driver))


def test_the_installed_tensorflow_tells_its_kernels():
    build = gpu_support.Build.of("2", tf.sysconfig.get_build_info())
    assert build is None or (5, 0) <= build.capabilities[0] <= build.capabilities[-1]  # None: tensorflow-cpu


def test_a_tensorflow_without_cuda_has_no_build():
    assert gpu_support.Build.of("2.21", {"is_cuda_build": False}) is None


@pytest.mark.parametrize(
    "capability, with_old, with_new",
    [
        ((3, 7), "problem", "problem"),  # Kepler
        ((5, 2), "ok", "problem"),  # Maxwell
        ((6, 1), "ok", "ok"),  # Pascal
        ((8, 9), "ok", "ok"),  # Ada
        ((9, 0), "warning", "ok"),  # Hopper
        ((12, 0), "warning", "warning"),  # Blackwell
        (None, "ok", "ok"),
    ],
)
def test_generations_of_gpus(capability, with_old, with_new):
    assert (judge(OLD, capability)[0], judge(NEW, capability)[0]) == (with_old, with_new)


def test_a_gpu_with_kernels_is_named():
    assert judge(NEW, (9, 0)) == ("ok", "NVIDIA X (compute capability 9.0)")
    assert judge(NEW, None) == ("ok", "NVIDIA X")


def test_a_gpu_that_is_older_than_the_kernels_is_a_problem():
    assert judge(NEW, (5, 2)) == (
        "problem",
        "NVIDIA X (compute capability 5.2): TensorFlow 2.21 was built for 6.0 and newer; use another GPU or "
        "release of TensorFlow, or train on the CPU",
    )


def test_kernels_that_are_compiled_are_a_warning():
    assert judge(OLD, (9, 0)) == (
        "warning",
        "NVIDIA X (compute capability 9.0): TensorFlow 2.15 has no kernels for this GPU, so the driver "
        "compiles them at first use, which takes minutes; set CUDA_CACHE_MAXSIZE=4294967296 to keep them "
        "all, and train without --xla if it fails",
    )


@pytest.mark.parametrize(
    "build, capability, driver, needed",
    [(OLD, (8, 0), (11, 4), "12.0"), (OLD, (9, 0), (12, 0), "12.2"), (NEW, (10, 0), (12, 4), "12.5")],
)
def test_a_driver_that_is_too_old_is_a_problem(build, capability, driver, needed):
    number, version = (".".join(map(str, pair)) for pair in (capability, driver))
    assert judge(build, capability, driver) == (
        "problem",
        f"NVIDIA X (compute capability {number}): the driver supports CUDA {version}, TensorFlow "
        f"{build.release} needs {needed} for this GPU; install a newer NVIDIA driver",
    )


@pytest.mark.parametrize("build, capability, driver", [(OLD, (8, 0), (12, 0)), (NEW, (8, 9), None)])
def test_any_driver_of_the_same_major_cuda_runs_machine_code(build, capability, driver):
    assert judge(build, capability, driver)[0] == "ok"
