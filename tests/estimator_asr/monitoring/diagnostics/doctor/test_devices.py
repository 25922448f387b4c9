"""Machines with GPUs are simulated, because the test machine has no GPU."""

import subprocess
import types

import pytest
import tensorflow as tf

from estimator_asr.monitoring.diagnostics.doctor import devices

# The build information of TensorFlow 2.15 and 2.21.
OLD = {
    **{"is_cuda_build": True, "cuda_version": "12.2", "cudnn_version": "8"},
    "cuda_compute_capabilities": ["sm_50", "sm_60", "sm_70", "sm_75", "compute_80"],
}
NEW = {
    **{"is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"},
    "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"],
}
CARD = devices.Gpu("NVIDIA A100", (8, 0))
OLD_CARD = devices.Gpu("Tesla K80", (3, 7))
SOUND = devices.Machine("2.15.1", OLD, ["CPU:0"], [], None, None, driver=(12, 4), cudnn="8.9.7")
SOUND_NEW = SOUND._replace(tensorflow="2.21.0", build=NEW, driver=(12, 8))
K80 = (
    "Tesla K80 (compute capability 3.7): TensorFlow 2.15.1 was built for compute capability 5.0 and newer; "
    "use another GPU or another TensorFlow release, or train on the CPU"
)


def judge(**changes):
    return [tuple(finding) for finding in devices.judge(SOUND._replace(**changes))]


def test_a_machine_without_a_gpu_is_ok():
    assert judge(tensorflow="2.21.0", build=NEW, driver=None, cudnn="") == [
        ("ok", "TensorFlow 2.21.0 is built for CUDA 12.5.1 and cuDNN 9; installed: no driver, no cuDNN"),
        ("ok", "CPU:0"),
        ("ok", "this machine has no NVIDIA GPU, so training runs on the CPU"),
    ]


def test_gpus_that_tensorflow_lists_are_checked():
    seen = CARD._replace(name="GPU:0 NVIDIA A100"), OLD_CARD._replace(name="GPU:1 Tesla K80")
    installed = "installed: driver for CUDA 12.4, cuDNN 8.9.7"
    assert judge(gpus=seen, present=CARD) == [
        ("ok", f"TensorFlow 2.15.1 is built for CUDA 12.2 and cuDNN 8; {installed}"),
        ("ok", "CPU:0"),
        ("ok", "GPU:0 NVIDIA A100 (compute capability 8.0)"),
        ("problem", f"GPU:1 {K80}"),
    ]


def test_a_gpu_is_ok_if_tensorflow_is_built_without_cuda():
    gpus = [devices.Gpu("GPU:0 AMD X", None)]
    assert judge(build={"is_cuda_build": False}, gpus=gpus) == [("ok", "CPU:0"), ("ok", "GPU:0 AMD X")]


@pytest.mark.parametrize(
    "changes, fix",
    [
        ({"visible": ""}, "CUDA_VISIBLE_DEVICES='' hides the GPU; unset CUDA_VISIBLE_DEVICES"),
        ({"visible": "-1"}, "CUDA_VISIBLE_DEVICES='-1' hides the GPU; unset CUDA_VISIBLE_DEVICES"),
        (
            {"build": {"is_cuda_build": False}},
            "this TensorFlow was built without CUDA; run pip install 'tensorflow[and-cuda]==2.15.1'",
        ),
        (
            {"driver": None, "missing": ["libcuda.so.1"]},
            "its driver cannot be loaded; install NVIDIA's driver, or start the container with --gpus all",
        ),
        (
            {"missing": ["libcublas.so.12", "libcudnn.so.8"]},
            "libcublas.so.12, libcudnn.so.8 cannot be opened; to install the CUDA libraries, run pip install "
            "'tensorflow[and-cuda]==2.15.1'",
        ),
        (
            {"driver": (11, 4)},
            "NVIDIA A100 (compute capability 8.0): the driver supports CUDA 11.4, but TensorFlow 2.15.1 "
            "needs CUDA 12.0 for this GPU; install a newer NVIDIA driver",
        ),
        (
            {"visible": "0"},
            "to read TensorFlow's own log, run TF_CPP_MIN_LOG_LEVEL=0 python -c 'import tensorflow as t; "
            "t.config.list_physical_devices()'",
        ),
        ({"present": OLD_CARD, "missing": ["libcudnn.so.8"]}, K80),
    ],
)
def test_a_gpu_that_tensorflow_does_not_list_is_a_problem_with_a_fix(changes, fix):
    changes = {"present": CARD, **changes}
    text = f"TensorFlow does not see the {changes['present'].name} and runs on the CPU; {fix}"
    assert judge(**changes)[-1] == ("problem", text)


def judge_gpu(machine, capability, **changes):
    return tuple(devices.judge_gpu(devices.Gpu("NVIDIA X", capability), machine._replace(**changes)))


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
def test_each_generation_of_gpus_has_its_level(capability, with_old, with_new):
    assert (judge_gpu(SOUND, capability)[0], judge_gpu(SOUND_NEW, capability)[0]) == (with_old, with_new)


def test_a_gpu_whose_kernels_the_driver_compiles_is_a_warning():
    assert judge_gpu(SOUND, (9, 0)) == (
        "warning",
        "NVIDIA X (compute capability 9.0): TensorFlow 2.15.1 has no kernels for this GPU, so the driver "
        "compiles them at first use, which takes minutes; set CUDA_CACHE_MAXSIZE=4294967296 to keep all "
        "compiled kernels; if training with --xla fails, leave --xla out",
    )


@pytest.mark.parametrize(
    "machine, capability, driver, needed",
    [
        (SOUND, (9, 0), (12, 0), "12.2"),  # a driver that compiles kernels must support their CUDA version
        (SOUND_NEW, (10, 0), (12, 4), "12.5"),
        (SOUND, (8, 0), (12, 0), None),  # any driver of the same major CUDA version runs machine code
        (SOUND_NEW, (8, 0), None, None),
    ],
)
def test_the_driver_must_support_the_cuda_version(machine, capability, driver, needed):
    level, text = judge_gpu(machine, capability, driver=driver)
    assert level == ("problem" if needed else "ok")
    assert not needed or f"needs CUDA {needed} for this GPU" in text


@pytest.mark.parametrize("number, version", [(8907, "8.9.7"), (90300, "9.3.0"), (91401, "9.14.1")])
def test_the_cudnn_version_is_decoded(monkeypatch, number, version):
    libraries = {"libcudnn.so.9": types.SimpleNamespace(cudnnGetVersion=lambda: number)}
    monkeypatch.setattr(devices.ctypes, "CDLL", libraries.__getitem__)
    assert devices.read_cudnn("9.3.0") == version


@pytest.mark.parametrize("number, version", [(12040, (12, 4)), (0, None)])
def test_the_cuda_version_of_a_driver_is_decoded(monkeypatch, number, version):
    def get_version(pointer):
        pointer._obj.value = number

    library = types.SimpleNamespace(cuDriverGetVersion=get_version)
    monkeypatch.setattr(devices.ctypes, "CDLL", {"libcuda.so.1": library}.__getitem__)
    assert devices.read_driver() == version


def test_missing_libraries_have_no_version(monkeypatch):
    def refuse(name):
        raise OSError(name)

    monkeypatch.setattr(devices.ctypes, "CDLL", refuse)
    assert devices.read_driver() is None and devices.read_cudnn("9") == ""


@pytest.mark.long
def test_libraries_that_tensorflow_cannot_open_are_listed():
    missing = devices.list_missing_libraries()
    is_complete = bool(tf.config.list_physical_devices("GPU"))
    assert bool(missing) == (tf.sysconfig.get_build_info()["is_cuda_build"] and not is_complete)
    assert all(name.startswith("lib") and "nvinfer" not in name for name in missing)


def answer(monkeypatch, output="", error=None):
    """Replaces nvidia-smi by a function that returns an output or raises an error."""

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
        ("", None),
        ("\n", None),
        ("No devices were found\n", None),
        ('Field "compute_cap" is not a valid field to query.\n', None),
        ("Unable to determine the device handle for GPU 0000:01:00.0: Unknown Error\n", None),
    ],
)
def test_nvidia_smi_returns_name_and_capability_of_the_first_gpu(monkeypatch, tmp_path, output, gpu):
    answer(monkeypatch, output)
    assert devices.find_gpu(str(tmp_path)) == gpu


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

    def add(address, vendor, kind):
        path = tmp_path / "sys/bus/pci/devices" / address
        path.mkdir(parents=True)
        (path / "vendor").write_text(f"{vendor}\n")
        (path / "class").write_text(f"{kind}\n")

    add("0000:00:02.0", "0x8086", "0x030000")
    add("0000:01:00.1", "0x10de", "0x040300")  # sound device of an NVIDIA card
    assert devices.find_gpu(str(tmp_path)) is None
    add("0000:01:00.0", "0x10de", "0x030200")
    assert devices.find_gpu(str(tmp_path)) == ("NVIDIA GPU at 0000:01:00.0", None)


def test_facts_about_this_machine_are_collected():
    machine = devices.gather()
    assert machine.tensorflow == tf.__version__ and "CPU:0" in machine.devices
    kernels = machine.build.get("cuda_compute_capabilities", ())  # missing in tensorflow-cpu
    assert all(kernel.startswith(("sm_", "compute_")) for kernel in kernels)


def test_a_gpu_is_described_by_tensorflow(monkeypatch):
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    details = {"device_name": "NVIDIA A100", "compute_capability": (8, 0)}
    monkeypatch.setattr(devices.tf.config, "list_physical_devices", lambda: [gpu])
    monkeypatch.setattr(devices.tf.config.experimental, "get_device_details", lambda device: details)
    assert devices.gather().gpus == [("GPU:0 NVIDIA A100", (8, 0))]
    details.clear()
    assert devices.gather().gpus == [("GPU:0", None)]
