from __future__ import annotations

import subprocess

import pytest

from estimator_asr.diagnostics.doctor import devices

BUILD = {"is_cuda_build": True, "cuda_version": "12.2", "cudnn_version": "8"}
CARD = "NVIDIA A100"
SOUND = devices.Machine(
    devices=[("CPU", "CPU:0")],
    gpu="",
    driver="535.104.05",
    visible=None,
    build=BUILD,
    missing="",
    cudnn="8.9.7",
)


def judge(**changes):
    return [tuple(finding) for finding in devices.judge(SOUND._replace(**changes))]


def test_a_machine_without_a_gpu_is_ok():
    assert judge(cudnn="") == [
        ("ok", "TensorFlow is built for CUDA 12.2 and cuDNN 8; no cuDNN is installed"),
        ("ok", "CPU CPU:0"),
        ("ok", "no NVIDIA GPU in this machine, training runs on the CPU"),
    ]


def test_a_gpu_that_is_seen_is_listed():
    assert judge(devices=[("CPU", "CPU:0"), ("GPU", "GPU:0 NVIDIA A100")], gpu=CARD) == [
        ("ok", "TensorFlow is built for CUDA 12.2 and cuDNN 8; cuDNN 8.9.7 is installed"),
        ("ok", "CPU CPU:0"),
        ("ok", "GPU GPU:0 NVIDIA A100"),
    ]


def test_a_gpu_that_only_xla_sees_is_a_problem():
    changes = {"devices": [("CPU", "CPU:0"), ("XLA_GPU", "XLA_GPU:0")], "missing": "libcudnn.so.8"}
    level, text = judge(**changes)[-1]
    assert level == "problem" and text == (
        "only XLA_GPU is listed: XLA sees the GPU, but TensorFlow could not load the libraries of its own "
        "kernels and runs on the CPU; libcudnn.so.8 cannot be opened: pip install "
        "'tensorflow[and-cuda]==2.15.1' installs it (in nvidia-cudnn-cu12)"
    )


@pytest.mark.parametrize(
    "changes, fix",
    [
        ({"visible": ""}, "CUDA_VISIBLE_DEVICES='' hides it: unset CUDA_VISIBLE_DEVICES"),
        ({"visible": "-1"}, "CUDA_VISIBLE_DEVICES='-1' hides it"),
        ({"build": {"is_cuda_build": False}}, "built without CUDA: pip install tensorflow==2.15.1"),
        (
            {"missing": "libcuda.so.1"},
            "the driver's libcuda.so.1 is missing: install NVIDIA's driver (apt-get install",
        ),
        (
            {"missing": "libcudnn.so.8"},
            "libcudnn.so.8 cannot be opened: pip install 'tensorflow[and-cuda]==2.15.1' installs it",
        ),
        ({"driver": "470.82.01"}, "driver 470.82.01 is too old for CUDA 12: install 525 or later"),
        (
            {"visible": "0"},
            "all libraries open; TensorFlow's own log says more: TF_CPP_MIN_LOG_LEVEL=0 python -c",
        ),
    ],
)
def test_a_gpu_that_is_not_seen_is_a_problem_with_its_fix(changes, fix):
    level, text = judge(gpu=CARD, **changes)[-1]
    assert level == "problem"
    assert text.startswith("TensorFlow does not see the NVIDIA A100 and runs on the CPU; ")
    assert fix in text


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


def test_nvidia_smi_gives_name_and_driver_of_the_first_gpu(monkeypatch):
    answer(monkeypatch, "NVIDIA A100-SXM4-40GB, 535.104.05\nNVIDIA T4, 535.104.05\n")
    assert devices.find_gpu() == ("NVIDIA A100-SXM4-40GB", "535.104.05")


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
    assert devices.find_gpu(str(tmp_path)) == ("", "")
    bus = tmp_path / "sys/bus/pci/devices"
    write(bus / "0000:00:02.0/vendor", "0x8086\n")
    write(bus / "0000:00:02.0/class", "0x030000\n")
    write(bus / "0000:01:00.1/vendor", "0x10de\n")
    write(bus / "0000:01:00.1/class", "0x040300\n")  # the sound device of the card
    assert devices.find_gpu(str(tmp_path)) == ("", "")
    write(bus / "0000:01:00.0/vendor", "0x10de\n")
    write(bus / "0000:01:00.0/class", "0x030200\n")
    assert devices.find_gpu(str(tmp_path)) == ("NVIDIA GPU at 0000:01:00.0", "")


def test_a_library_is_opened_by_name_or_among_the_wheels(monkeypatch, tmp_path):
    assert devices.open_library("libc.so.6") is not None
    assert devices.open_library("libnothing.so.77") is None
    path = tmp_path / "nvidia" / "cudnn" / "lib" / "libnothing.so.77"
    write(path, "")
    opened = []

    def load(name):
        opened.append(name)
        if name != str(path):
            raise OSError(name)
        return "loaded"

    monkeypatch.setattr(devices.sysconfig, "get_path", lambda kind: str(tmp_path))
    monkeypatch.setattr(devices.ctypes, "CDLL", load)
    assert devices.open_library("libnothing.so.77") == "loaded"
    assert opened == ["libnothing.so.77", str(path)]


def test_the_version_of_cudnn_is_read_from_its_number():
    class Cudnn:
        @staticmethod
        def cudnnGetVersion():
            return 8907

    assert devices.cudnn_version(Cudnn) == "8.9.7"
    assert devices.cudnn_version(None) == ""


def test_the_facts_of_this_machine():
    machine = devices.gather()
    assert any(kind == "CPU" for kind, _ in machine.devices)
    assert machine.missing in {"", *devices.LIBRARIES}
