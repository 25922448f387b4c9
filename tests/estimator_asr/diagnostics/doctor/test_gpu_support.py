"""GPUs are simulated by their name and compute capability: there is none on the machine of the tests."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.diagnostics.doctor import gpu_support, libraries
from estimator_asr.diagnostics.doctor.gpu_support import BUILDS, Coverage, Gpu
from tfrecord_builder import tensorflow_release

NEW = libraries.Libraries(missing=(), cudnn=None, driver=(12, 8))


def judge(release, capability, name="NVIDIA X", **changes):
    return tuple(gpu_support.judge(Gpu(name, capability), BUILDS[release], NEW._replace(**changes)))


def test_there_is_a_build_for_each_release():
    assert list(BUILDS) == [release.version for release in tensorflow_release.RELEASES]


def test_the_table_has_what_the_installed_tensorflow_says():
    release = tensorflow_release.find(tf.__version__).version
    build = gpu_support.Build.of(release, tf.sysconfig.get_build_info())
    assert build in (None, BUILDS[release])  # None: tensorflow-cpu


def test_a_tensorflow_without_cuda_has_no_build():
    assert gpu_support.Build.of("2.21", {"is_cuda_build": False}) is None


@pytest.mark.parametrize(
    "capability, with_2_15, with_2_21",
    [
        ((3, 7), Coverage.NONE, Coverage.NONE),  # Kepler
        ((5, 2), Coverage.FULL, Coverage.NONE),  # Maxwell
        ((6, 1), Coverage.FULL, Coverage.FULL),  # Pascal
        ((7, 0), Coverage.FULL, Coverage.FULL),  # Volta
        ((7, 5), Coverage.FULL, Coverage.FULL),  # Turing
        ((8, 0), Coverage.FULL, Coverage.FULL),  # Ampere
        ((8, 9), Coverage.FULL, Coverage.FULL),  # Ada
        ((9, 0), Coverage.COMPILED, Coverage.FULL),  # Hopper
        ((10, 0), Coverage.NONE, Coverage.COMPILED),  # Blackwell
        ((12, 0), Coverage.NONE, Coverage.COMPILED),
        ((13, 0), Coverage.NONE, Coverage.NONE),
    ],
)
def test_coverage_of_each_generation(capability, with_2_15, with_2_21):
    assert gpu_support.coverage(BUILDS["2.15"], capability) is with_2_15
    assert gpu_support.coverage(BUILDS["2.21"], capability) is with_2_21


def test_a_build_of_ones_own_covers_what_it_was_made_for():
    build = BUILDS["2.21"]._replace(kernels=("sm_90", "sm_120a"))
    assert gpu_support.coverage(build, (12, 0)) is Coverage.FULL
    assert gpu_support.coverage(build, (8, 9)) is Coverage.NONE


@pytest.mark.parametrize("release, capability", [("2.15", (8, 0)), ("2.21", (9, 0))])
def test_a_gpu_with_kernels_is_ok(release, capability):
    text = f"NVIDIA X (compute capability {capability[0]}.0)"
    assert judge(release, capability) == ("ok", text)


def test_a_gpu_of_unknown_capability_is_ok():
    assert judge("2.21", None) == ("ok", "NVIDIA X")


@pytest.mark.parametrize(
    "release, capability, fix",
    [
        ("2.15", (9, 0), "set CUDA_CACHE_MAXSIZE=4294967296 to keep them all"),
        ("2.21", (12, 0), "set CUDA_CACHE_MAXSIZE=4294967296 to keep them all and train without --xla"),
    ],
)
def test_kernels_that_are_compiled_are_a_warning(release, capability, fix):
    assert judge(release, capability) == (
        "warning",
        f"NVIDIA X (compute capability {capability[0]}.0): TensorFlow {release} has no kernels for this GPU, "
        f"so the driver compiles them at first use, which takes minutes; {fix}",
    )


@pytest.mark.parametrize(
    "release, name, capability, text",
    [
        (
            *("2.15", "NVIDIA GeForce RTX 5090", (12, 0)),
            "NVIDIA GeForce RTX 5090 has compute capability 12.0, TensorFlow 2.15 supports 5.0 to 9.0; "
            "install TensorFlow 2.21 (Python 3.12 to 3.13)",
        ),
        (
            *("2.21", "NVIDIA GeForce GTX 980", (5, 2)),
            "NVIDIA GeForce GTX 980 has compute capability 5.2, TensorFlow 2.21 supports 6.0 to 12.1; "
            "install TensorFlow 2.15 (Python 3.9 to 3.11)",
        ),
        (
            *("2.21", "Tesla K80", (3, 7)),
            "Tesla K80 has compute capability 3.7, TensorFlow 2.21 supports 6.0 to 12.1; "
            "use another GPU, or train on the CPU",
        ),
    ],
)
def test_a_gpu_without_kernels_is_a_problem_with_the_release_that_has_them(release, name, capability, text):
    assert judge(release, capability, name) == ("problem", text)


@pytest.mark.parametrize(
    "release, capability, driver, needed",
    [
        ("2.15", (8, 0), (11, 4), "12.0"),
        ("2.15", (9, 0), (12, 0), "12.2"),
        ("2.21", (8, 9), (11, 8), "12.0"),
        ("2.21", (9, 0), (12, 2), "12.5"),  # element-wise kernels are PTX of CUDA 12.5 for 9.0
        ("2.21", (10, 0), (12, 5), "12.8"),
    ],
)
def test_a_driver_that_is_too_old_is_a_problem(release, capability, driver, needed):
    number, version = (".".join(map(str, pair)) for pair in (capability, driver))
    assert judge(release, capability, driver=driver) == (
        "problem",
        f"NVIDIA X (compute capability {number}): the driver supports CUDA {version}, TensorFlow {release} "
        f"needs {needed} for this GPU; install a newer NVIDIA driver",
    )


def test_a_driver_that_is_too_old_is_a_problem_for_a_gpu_of_unknown_capability():
    assert judge("2.15", None, driver=(11, 4))[1].startswith("NVIDIA X: the driver supports CUDA 11.4, ")


@pytest.mark.parametrize(
    "release, capability, driver", [("2.15", (8, 0), (12, 0)), ("2.21", (8, 9), (12, 0))]
)
def test_any_driver_of_cuda_12_runs_machine_code(release, capability, driver):
    assert judge(release, capability, driver=driver)[0] == "ok"


@pytest.mark.parametrize(
    "capability, cudnn, wheel",
    [
        ((6, 1), (9, 11, 0), "nvidia-cudnn-cu12<9.11"),
        ((7, 0), (9, 14, 0), "nvidia-cudnn-cu12<9.11"),
        ((12, 0), (9, 3, 0), "nvidia-cudnn-cu12>=9.7,<10"),
    ],
)
def test_a_cudnn_without_the_gpu_is_a_problem(capability, cudnn, wheel):
    number, version = (".".join(map(str, numbers)) for numbers in (capability, cudnn))
    assert judge("2.21", capability, cudnn=cudnn) == (
        "problem",
        f"NVIDIA X (compute capability {number}): cuDNN {version} does not support this GPU; "
        f"pip install '{wheel}'",
    )


@pytest.mark.parametrize(
    "capability, cudnn, level",
    [
        ((6, 1), (9, 10, 2), "ok"),
        ((7, 5), (9, 14, 0), "ok"),
        ((6, 1), (8, 9, 7), "ok"),
        ((12, 0), (9, 7, 0), "warning"),
    ],
)
def test_a_cudnn_with_the_gpu_is_none(capability, cudnn, level):
    assert judge("2.21", capability, cudnn=cudnn)[0] == level
