from __future__ import annotations

import subprocess

import pytest

from estimator_asr.diagnostics.doctor import devices, libraries

BUILD = {"is_cuda_build": True, "cuda_version": "12.2", "cudnn_version": "8"}
CARD = "GPU NVIDIA A100"
SOUND = devices.Machine(
    devices=[("CPU", "CPU:0")],
    hardware=[],
    visible=None,
    build=BUILD,
    has_driver=True,
    driver="535.104.05",
    missing=None,
    cudnn="8.9.7",
)


def judge(**changes):
    return [tuple(finding) for finding in devices.judge(SOUND._replace(**changes))]


def test_a_machine_without_a_gpu_is_fine():
    assert judge(cudnn="") == [
        ("ok", "TensorFlow is built for CUDA 12.2 and cuDNN 8; no cuDNN is found"),
        ("ok", "CPU CPU:0"),
        ("ok", "no NVIDIA GPU in this machine, training runs on the CPU"),
    ]


def test_a_gpu_that_is_seen_is_listed():
    assert judge(devices=[("CPU", "CPU:0"), ("GPU", "GPU:0 NVIDIA A100")], hardware=[CARD]) == [
        ("ok", "TensorFlow is built for CUDA 12.2 and cuDNN 8; cuDNN 8.9.7 is found"),
        ("ok", "CPU CPU:0"),
        ("ok", "GPU GPU:0 NVIDIA A100"),
    ]


@pytest.mark.parametrize(
    "changes, cure",
    [
        ({"visible": ""}, "CUDA_VISIBLE_DEVICES='' hides it: unset CUDA_VISIBLE_DEVICES"),
        ({"visible": "-1"}, "CUDA_VISIBLE_DEVICES='-1' hides it"),
        ({"build": {"is_cuda_build": False}}, "built without CUDA: pip install tensorflow==2.15.1"),
        (
            {"has_driver": False},
            "the driver's libcuda.so.1 is missing: install NVIDIA's driver (apt-get install",
        ),
        (
            {"missing": libraries.Library("libcudnn.so.8", "nvidia-cudnn-cu12")},
            "libcudnn.so.8 cannot be opened: pip install 'tensorflow[and-cuda]==2.15.1' brings it",
        ),
        ({"driver": "470.82.01"}, "driver 470.82.01 is too old for CUDA 12: install 525 or later"),
        (
            {"visible": "0"},
            "all libraries open; TensorFlow itself says more: TF_CPP_MIN_LOG_LEVEL=0 python -c",
        ),
    ],
)
def test_a_gpu_that_is_not_seen_is_a_problem_with_its_cure(changes, cure):
    level, text = judge(hardware=[CARD], **changes)[-1]
    assert level == "problem"
    assert text.startswith("GPU NVIDIA A100 is there, but TensorFlow does not see it and runs on the CPU; ")
    assert cure in text


def test_xla_gpu_alone_is_explained():
    level, text = judge(
        devices=[("CPU", "CPU:0"), ("XLA_GPU", "XLA_GPU:0")], missing=libraries.LIBRARIES[-1]
    )[-1]
    assert level == "problem" and text.startswith("there is XLA_GPU but no GPU: ") and "libcudnn.so.8" in text


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_hardware_is_found_by_the_driver_or_on_the_bus(tmp_path, monkeypatch):
    monkeypatch.setattr(devices.shutil, "which", lambda name: None)
    assert devices.find_hardware(str(tmp_path)) == []
    bus = tmp_path / "sys/bus/pci/devices"
    write(bus / "0000:00:02.0/vendor", "0x8086\n")
    write(bus / "0000:00:02.0/class", "0x030000\n")
    write(bus / "0000:01:00.1/vendor", "0x10de\n")
    write(bus / "0000:01:00.1/class", "0x040300\n")  # the sound of the card
    assert devices.find_hardware(str(tmp_path)) == []
    write(bus / "0000:01:00.0/vendor", "0x10de\n")
    write(bus / "0000:01:00.0/class", "0x030200\n")
    assert devices.find_hardware(str(tmp_path)) == ["an NVIDIA GPU at 0000:01:00.0"]
    write(tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA A100\nIRQ: 1\n")
    assert devices.find_hardware(str(tmp_path)) == ["GPU NVIDIA A100"]


def test_hardware_is_found_by_nvidia_smi(tmp_path, monkeypatch):
    monkeypatch.setattr(devices.shutil, "which", lambda name: f"/usr/bin/{name}")
    listed = "GPU 0: NVIDIA T4 (UUID: GPU-1)\nGPU 1: NVIDIA T4 (UUID: GPU-2)\n"
    monkeypatch.setattr(
        devices.subprocess, "run", lambda *args, **kwargs: subprocess.CompletedProcess(args, 0, stdout=listed)
    )
    assert devices.find_hardware(str(tmp_path)) == ["NVIDIA T4", "NVIDIA T4"]

    def hang(*args, **kwargs):
        raise subprocess.TimeoutExpired("nvidia-smi", 30)

    monkeypatch.setattr(devices.subprocess, "run", hang)
    assert devices.find_hardware(str(tmp_path)) == []


def test_the_version_of_the_driver(tmp_path):
    assert devices.read_driver(str(tmp_path)) == ""
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    write(tmp_path / "proc/driver/nvidia/version", line)
    assert devices.read_driver(str(tmp_path)) == "535.104.05"


def test_this_machine_can_be_looked_at():
    assert any(kind == "CPU" for kind, _ in devices.gather().devices)
