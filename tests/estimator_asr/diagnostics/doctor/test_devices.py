"""A machine with GPUs is simulated by what it lists: there is no GPU on the machine of the tests."""

from __future__ import annotations

import subprocess

import pytest
import tensorflow as tf

from estimator_asr.diagnostics.doctor import devices, gpu_support, libraries

CARD = gpu_support.Gpu("NVIDIA A100", (8, 0))
OLD_CARD = gpu_support.Gpu("Tesla K80", (3, 7))
OLD = gpu_support.Build("2.15", "12.2", "8", ("sm_50", "sm_60", "sm_70", "sm_75", "compute_80"))
NEW = gpu_support.Build("2.21", "12.5.1", "9", ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"))
ALL = libraries.Libraries(missing=(), cudnn=(8, 9, 7), driver=(12, 4))
SOUND = devices.Machine(
    tensorflow="2.15.1",
    build=OLD,
    devices=["CPU:0"],
    gpus=[],
    present=None,
    visible=None,
    libraries=ALL,
)


def judge(**changes):
    return [tuple(finding) for finding in devices.judge(SOUND._replace(**changes))]


def test_a_machine_without_a_gpu_is_ok():
    nothing = libraries.Libraries(libraries.wanted("9"), None, None)
    assert judge(tensorflow="2.21.0", build=NEW, libraries=nothing) == [
        ("ok", "TensorFlow 2.21.0 is built for CUDA 12.5.1 and cuDNN 9; 0 of its 8 libraries are installed"),
        ("ok", "CPU:0"),
        ("ok", "no NVIDIA GPU in this machine, training runs on the CPU"),
    ]


def test_a_gpu_that_is_seen_is_listed_and_judged():
    seen = CARD._replace(name="GPU:0 NVIDIA A100"), OLD_CARD._replace(name="GPU:1 Tesla K80")
    assert judge(gpus=seen, present=CARD) == [
        (
            "ok",
            "TensorFlow 2.15.1 is built for CUDA 12.2 and cuDNN 8; 8 of its 8 libraries are installed, "
            "cuDNN 8.9.7, a driver for CUDA 12.4",
        ),
        ("ok", "CPU:0"),
        ("ok", "GPU:0 NVIDIA A100 (compute capability 8.0)"),
        (
            "problem",
            "GPU:1 Tesla K80 (compute capability 3.7): TensorFlow 2.15 was built for 5.0 and newer; use "
            "another GPU or release of TensorFlow, or train on the CPU",
        ),
    ]


def test_a_gpu_of_a_tensorflow_without_cuda_is_listed():
    assert judge(build=None, gpus=[gpu_support.Gpu("GPU:0 AMD X", None)]) == [
        ("ok", "CPU:0"),
        ("ok", "GPU:0 AMD X"),
    ]


def test_a_gpu_that_only_xla_sees_is_a_problem():
    missing = ALL._replace(missing=("libcudnn.so.8",))
    assert judge(devices=["CPU:0", "XLA_GPU:0"], libraries=missing)[-1] == (
        "problem",
        "only XLA_GPU is listed: XLA sees the GPU, but TensorFlow could not load the libraries of its own "
        "kernels and runs on the CPU; libcudnn.so.8 cannot be opened: pip install "
        "'tensorflow[and-cuda]==2.15.1' installs what is missing (nvidia-cudnn-cu12)",
    )


@pytest.mark.parametrize(
    "changes, fix",
    [
        ({"visible": ""}, "CUDA_VISIBLE_DEVICES='' hides it: unset CUDA_VISIBLE_DEVICES"),
        ({"visible": "-1"}, "CUDA_VISIBLE_DEVICES='-1' hides it: unset CUDA_VISIBLE_DEVICES"),
        (
            {"build": None},
            "this TensorFlow is built without CUDA: pip install 'tensorflow[and-cuda]==2.15.1'",
        ),
        (
            {"libraries": ALL._replace(missing=libraries.wanted("8"), driver=None)},
            "the driver's libcuda.so.1 is missing: install NVIDIA's driver (apt-get install "
            "nvidia-driver-570), or start the container with --gpus all",
        ),
        (
            {"libraries": ALL._replace(missing=("libcublas.so.12", "libcudnn.so.8"), cudnn=(9, 3, 0))},
            "libcublas.so.12, libcudnn.so.8 cannot be opened: pip install 'tensorflow[and-cuda]==2.15.1' "
            "installs what is missing (nvidia-cublas-cu12, nvidia-cudnn-cu12)",
        ),
        (
            {"build": NEW, "tensorflow": "2.21.0", "libraries": ALL._replace(missing=("libcudnn.so.9",))},
            "libcudnn.so.9 cannot be opened: pip install 'tensorflow[and-cuda]==2.21.0' installs what is "
            "missing (nvidia-cudnn-cu12)",
        ),
        (
            {"libraries": ALL._replace(driver=(11, 4))},
            "NVIDIA A100 (compute capability 8.0): the driver supports CUDA 11.4, TensorFlow 2.15 needs 12.0 "
            "for this GPU; install a newer NVIDIA driver",
        ),
        (
            {"visible": "0"},
            "all libraries open; TensorFlow's own log says more: TF_CPP_MIN_LOG_LEVEL=0 python -c "
            "'import tensorflow as t; t.config.list_physical_devices()'",
        ),
    ],
)
def test_a_gpu_that_is_not_seen_is_a_problem_with_its_fix(changes, fix):
    text = f"TensorFlow does not see the NVIDIA A100 and runs on the CPU; {fix}"
    assert judge(present=CARD, **changes)[-1] == ("problem", text)


def test_a_gpu_without_kernels_is_not_seen_for_that_reason():
    level, text = judge(present=OLD_CARD, libraries=ALL._replace(missing=("libcudnn.so.8",)))[-1]
    assert level == "problem" and text == (
        "TensorFlow does not see the Tesla K80 and runs on the CPU; Tesla K80 (compute capability 3.7): "
        "TensorFlow 2.15 was built for 5.0 and newer; use another GPU or release of TensorFlow, or train on "
        "the CPU"
    )


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def answer(monkeypatch, output="", error=None):
    """Makes nvidia-smi print an output, or fail."""

    def run(command, **options):
        assert command[0] == "nvidia-smi"
        if error:
            raise error
        return subprocess.CompletedProcess(command, 0, stdout=output)

    monkeypatch.setattr(devices.subprocess, "run", run)


@pytest.mark.parametrize(
    "output, gpu",
    [
        ("NVIDIA A100-SXM4-40GB, 8.0\nNVIDIA T4, 7.5\n", ("NVIDIA A100-SXM4-40GB", (8, 0))),
        ("NVIDIA GeForce RTX 5090, 12.0\n", ("NVIDIA GeForce RTX 5090", (12, 0))),
        ("NVIDIA T4, [N/A]\n", ("NVIDIA T4", None)),
        ("NVIDIA T4, [Not Supported]\n", ("NVIDIA T4", None)),
    ],
)
def test_nvidia_smi_gives_name_and_capability_of_the_first_gpu(monkeypatch, output, gpu):
    answer(monkeypatch, output)
    assert devices.find_gpu() == gpu


@pytest.mark.parametrize(
    "output",
    [
        "",
        "\n",
        "No devices were found\n",
        'Field "compute_cap" is not a valid field to query.\n',
        "Unable to determine the device handle for GPU 0000:01:00.0: Unknown Error\n",
    ],
)
def test_an_output_of_nvidia_smi_without_a_gpu_is_none(tmp_path, monkeypatch, output):
    answer(monkeypatch, output)
    assert devices.find_gpu(str(tmp_path)) is None


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(),
        subprocess.TimeoutExpired("nvidia-smi", 30),
        subprocess.CalledProcessError(9, "nvidia-smi"),
    ],
)
def test_without_nvidia_smi_the_pci_bus_is_searched(tmp_path, monkeypatch, error):
    answer(monkeypatch, error=error)
    assert devices.find_gpu(str(tmp_path)) is None
    bus = tmp_path / "sys/bus/pci/devices"
    write(bus / "0000:00:02.0/vendor", "0x8086\n")
    write(bus / "0000:00:02.0/class", "0x030000\n")
    write(bus / "0000:01:00.1/vendor", "0x10de\n")
    write(bus / "0000:01:00.1/class", "0x040300\n")  # the sound device of the card
    assert devices.find_gpu(str(tmp_path)) is None
    write(bus / "0000:01:00.0/vendor", "0x10de\n")
    write(bus / "0000:01:00.0/class", "0x030200\n")
    assert devices.find_gpu(str(tmp_path)) == ("NVIDIA GPU at 0000:01:00.0", None)


def test_the_facts_of_this_machine():
    machine = devices.gather()
    assert machine.tensorflow == tf.__version__ and "CPU:0" in machine.devices
    assert set(machine.libraries.missing) <= set(
        libraries.wanted(machine.build.cudnn if machine.build else "9")
    )


def test_a_gpu_is_described_by_tensorflow(monkeypatch):
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    details = {"device_name": "NVIDIA A100", "compute_capability": (8, 0)}
    monkeypatch.setattr(devices.tf.config, "list_physical_devices", lambda: [gpu])
    monkeypatch.setattr(devices.tf.config.experimental, "get_device_details", lambda device: details)
    assert devices.gather().gpus == [("GPU:0 NVIDIA A100", (8, 0))]
    details.clear()
    assert devices.gather().gpus == [("GPU:0", None)]
