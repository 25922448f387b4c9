"""Mixed precision (--precision): TensorFlow's graph rewrites, and a check that the hardware supports them.

Variables and checkpoints stay float32; matrix products and convolutions use 16 bits.

Measured for bfloat16 with the model of flags/manifest/acoustic.flags on 2 cores of an AMD EPYC 9004, while
other programs ran: 16 x 240 frames took 164 ms in float32 and 137 ms in bfloat16 (best of 50 steps each),
16 x 800 frames 743 and 540 ms (best of 24). The printed losses agreed to 0.003 and 0.017.
"""

from __future__ import annotations

import contextlib
import os

import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from tfrecord_builder import errors

# CPUs with one of these compute in bfloat16; others emulate it in float32 and are slower.
_CPU_FLAGS = ("avx512_bf16", "amx_bf16")
_CPU_INFO = "/proc/cpuinfo"
_TENSOR_CORES = (7, 0)  # compute capability of NVIDIA Volta
_OFF = "use --precision=float32"
_REWRITES = {
    "float32": (),
    "float16": ("auto_mixed_precision",),
    # Not auto_mixed_precision_cpu, which crashes TensorFlow 2.15 with a segmentation fault.
    "bfloat16": ("auto_mixed_precision_onednn_bfloat16",),
}


def check(precision: str) -> None:
    """Checks that this machine supports a precision.

    Raises:
        errors.UserError: hardware or a setting of TensorFlow is missing; names it.
    """
    if precision == "float16":
        _check_gpus()
    if precision == "bfloat16":
        _check_cpu()


def rewrite(session: tf.compat.v1.ConfigProto, precision: str) -> None:
    """Enables the graph rewrites of a precision in the session settings."""
    for option in _REWRITES[precision]:
        setattr(session.graph_options.rewrite_options, option, rewriter_config_pb2.RewriterConfig.ON)


def _check_gpus():
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise errors.UserError(
            "train: --precision=float16 without a GPU that TensorFlow can use, expected one with compute "
            f"capability 7.0 or higher; {_OFF}, or bfloat16 if the CPU supports it"
        )
    for gpu in gpus:
        capability = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        if tuple(capability) < _TENSOR_CORES:
            raise errors.UserError(
                f"train: --precision=float16 with {gpu.name} of compute capability "
                f"{'.'.join(map(str, capability))}, expected 7.0 or higher; {_OFF}, which is as fast there"
            )


def _check_cpu():
    if tf.config.list_physical_devices("GPU"):
        raise errors.UserError(
            "train: --precision=bfloat16 on a machine that trains on its GPU, expected a CPU; "
            "use --precision=float16"
        )
    if not _read_cpu_flags() & set(_CPU_FLAGS):
        raise errors.UserError(
            f"train: --precision=bfloat16 on a CPU without {' and '.join(_CPU_FLAGS)}, expected one of them; "
            f"{_OFF}, which is faster there"
        )
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false"):
        raise errors.UserError(
            "train: --precision=bfloat16 with TF_ENABLE_ONEDNN_OPTS=0, expected oneDNN, which implements it; "
            f"unset the variable, or {_OFF}"
        )


def _read_cpu_flags():
    """Returns the names of the instruction sets; none where the system does not list them."""
    with contextlib.suppress(OSError), open(_CPU_INFO, encoding="utf-8") as file:
        return set(next((line for line in file if line.startswith("flags")), "").split())
    return set()
