"""Training devices, distribution strategy and precision, and the hardware that they need.

With --precision=float16 or bfloat16, variables and checkpoints stay float32. TensorFlow rewrites the graph so
that matrix products and convolutions use 16 bits; for bfloat16 on GPUs, the model_fn casts kernels instead.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import training_config
from estimator_asr.training.distributed import cluster as cluster_lib
from tfrecord_builder import errors
from tfrecord_builder.program import cpu

_MEMORY_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"  # if true, TensorFlow allocates GPU memory only as needed
DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg")  # GPUs on Linux, and in Windows Subsystem for Linux
_NVIDIA, _DISPLAY = "0x10de", "0x03"  # PCI vendor id of NVIDIA, and class prefix of display devices
# CPUs with one of these flags support bfloat16; other CPUs emulate bfloat16 in float32, which is slower.
_CPU_FLAGS = ("avx512_bf16", "amx_bf16")
# Compute capabilities of NVIDIA Volta and Ampere, the first GPUs with tensor cores for these types.
_CAPABILITIES = {"float16": (7, 0), "bfloat16": (8, 0)}
_OFF = "use --precision=float32"
_REWRITES = {
    "float16": "auto_mixed_precision",
    # auto_mixed_precision_cpu is not an option, because it crashes TensorFlow 2.15 with a segmentation fault.
    "bfloat16": "auto_mixed_precision_onednn_bfloat16",
}


def check_hardware(config: training_config.TrainConfig, cluster: Optional[cluster_lib.Cluster]) -> None:
    """Checks that the settings are consistent and that this machine supports them; warns about XLA on a CPU.

    Raises errors.UserError if two settings contradict each other, or the precision needs different hardware
    or a different TensorFlow setting.
    """
    gpus = _gpus()
    if config.precision == "float16" and not gpus:
        raise errors.UserError(
            "train: --precision=float16 needs a GPU with compute capability 7.0 or higher, but TensorFlow "
            f"cannot use any GPU; {_OFF}, or bfloat16 if the CPU supports it"
        )
    if config.precision in _CAPABILITIES:
        _check_gpus(gpus, config.precision)
    if config.precision == "bfloat16" and not gpus:
        _check_cpu()
    if config.num_cpu_replicas > 1 and cluster:
        raise errors.UserError(
            f"train: --num_cpu_replicas is {config.num_cpu_replicas} and TF_CONFIG lists "
            f"{len(cluster.workers)} workers, but each worker on a CPU runs only one replica; "
            "omit --num_cpu_replicas, and add workers instead"
        )
    if cluster and cluster.shares_host and gpus and os.environ.get(_MEMORY_GROWTH) != "true":
        logging.warning(
            "TF_CONFIG: the evaluator runs on the same machine as a worker, and each of them would allocate "
            "all the memory of the GPUs; start the evaluator with CUDA_VISIBLE_DEVICES=, or start both with "
            f"{_MEMORY_GROWTH}=true"
        )
    if config.xla and not gpus:
        logging.warning(
            "--xla makes training on a CPU slower: with a Conformer of 4 layers, a step took three times as "
            "long (553 ms instead of 182 ms), and compiling one shape took 44 s; leave --xla out"
        )


def _gpus():
    return tf.config.list_physical_devices("GPU")


def _check_gpus(gpus, precision):
    for gpu in gpus:
        capability = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        if tuple(capability) < _CAPABILITIES[precision]:
            has, needs = (".".join(map(str, pair)) for pair in (capability, _CAPABILITIES[precision]))
            raise errors.UserError(
                f"train: --precision={precision} needs compute capability {needs} or higher, but {gpu.name} "
                f"has {has}; {_OFF}, which is as fast on this GPU"
            )


def _check_cpu():
    if not cpu.read_flags() & set(_CPU_FLAGS):
        raise errors.UserError(
            f"train: --precision=bfloat16 without a GPU needs a CPU with {' or '.join(_CPU_FLAGS)}, but this "
            f"CPU has neither; {_OFF}, which is faster here"
        )
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false"):
        raise errors.UserError(
            "train: --precision=bfloat16 needs oneDNN on a CPU, but TF_ENABLE_ONEDNN_OPTS=0 turns it off; "
            f"unset the variable, or {_OFF}"
        )


def log_devices(num_cpu_replicas: int, cluster: Optional[cluster_lib.Cluster]) -> None:
    """Logs the devices of this process, and warns if TensorFlow cannot use a GPU that is present."""
    gpus, task = _gpus(), "training"
    if not gpus and (any(map(glob.glob, DEVICE_FILES)) or find_on_pci_bus()):
        logging.warning(
            "a GPU is present but TensorFlow cannot use it, so training runs on the CPU; "
            "run python -m estimator_asr.doctor"
        )
    if cluster and cluster.is_evaluator:
        task = "evaluating each checkpoint"
    elif cluster:
        task += f" as {cluster.name} of {len(cluster.workers)} workers ({', '.join(cluster.workers)})"
    logging.info("%s on %s", task, _describe_devices(gpus, num_cpu_replicas))


def find_on_pci_bus(root: str = "/") -> str:
    """Returns the name of the first NVIDIA GPU on the PCI bus, or ""; works without a driver."""
    for path in sorted(pathlib.Path(root, "sys/bus/pci/devices").glob("*")):
        with contextlib.suppress(OSError):
            vendor, kind = ((path / file).read_text() for file in ("vendor", "class"))
            if vendor.strip() == _NVIDIA and kind.startswith(_DISPLAY):
                return f"NVIDIA GPU at {path.name}"
    return ""


def _describe_devices(gpus, num_cpu_replicas):
    if not gpus or num_cpu_replicas > 1:
        replicas = f" as {num_cpu_replicas} replicas" if num_cpu_replicas > 1 else ""
        num_cores = cpu.count_cores()
        return f"1 CPU{replicas}, {num_cores} core{'s' * (num_cores > 1)}"
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
    return f"{len(gpus)} GPU{'s' * (len(gpus) > 1)} ({', '.join(sorted(set(names)))})"


def product_type(config: training_config.TrainConfig, training: bool) -> tf.DType:
    """Returns the type of the matrix products: bfloat16 for training on GPUs with --precision=bfloat16.

    In all other cases the type is float32, and TensorFlow may rewrite the graph (_REWRITES); its rewrite to
    bfloat16 works only on CPUs.
    """
    return tf.bfloat16 if training and config.precision == "bfloat16" and _gpus() else tf.float32


def build_strategy(
    config: training_config.TrainConfig, cluster: Optional[cluster_lib.Cluster] = None
) -> Optional[tf.distribute.Strategy]:
    """Returns the distribution strategy; None for a single device or for a cluster's evaluator.

    A cluster uses MultiWorkerMirroredStrategy, which reads TF_CONFIG; several GPUs or CPU replicas use
    MirroredStrategy. Must be called before any other TensorFlow operation runs. Raises errors.UserError if
    this worker's port is in use.
    """
    if cluster and cluster.is_evaluator:
        return None
    if cluster:
        cluster_lib.check_port(cluster)
        kinds = tf.distribute.experimental.CommunicationImplementation
        # The v1 class is used because the v2 class needs eager execution.
        create = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
        return create(kinds.NCCL if _gpus() else kinds.RING)
    if config.num_cpu_replicas > 1:
        return mirror([f"/cpu:{i}" for i in range(config.num_cpu_replicas)])
    return tf.distribute.MirroredStrategy() if len(_gpus()) > 1 else None


def mirror(devices: list[str]) -> tf.distribute.MirroredStrategy:
    """Returns a strategy with one replica per device that sums gradients with ring collectives, without NCCL.

    By default, in graph mode on CPUs, TensorFlow copies all gradients to one device and adds them there. GPUs
    use collectives, so CPU replicas use them too, to reveal code that would hang or fail on GPUs.
    """
    from tensorflow.python.distribute import cross_device_ops

    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    collectives = cross_device_ops.CollectiveAllReduce(devices, len(devices), options)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=collectives)


def session_config(config: training_config.TrainConfig) -> tf.compat.v1.ConfigProto:
    """Returns the session's configuration: devices, XLA and graph rewrites."""
    session = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    session.device_count["CPU"] = config.num_cpu_replicas
    # All GPUs must launch collectives in the same order, or NCCL may wait forever. No effect without NCCL.
    session.experimental.collective_nccl = True
    rewrites = session.graph_options.rewrite_options
    # The GPU layout optimizer fails, and logs an error, on gradients of tf.where between convolutions.
    rewrites.layout_optimizer = rewrites.OFF
    if config.xla:
        session.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
    rewrite = _REWRITES.get(config.precision)
    if rewrite and product_type(config, training=True) == tf.float32:
        setattr(rewrites, rewrite, rewrites.ON)
    return session
