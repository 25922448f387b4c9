"""Facts about the GPUs of this machine as JSON, in a process of its own: a driver may hang or crash.

python -m benchmarks.gpu_check.facts devices    # findings of the doctor, GPUs with compute capability
python -m benchmarks.gpu_check.facts ctc        # difference between the CTC kernels, relative
"""

from __future__ import annotations

import json
import logging
import sys

from tfrecord_builder.runtime import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf

from estimator_asr.diagnostics import ctc_check
from estimator_asr.diagnostics.doctor import devices


def find_devices() -> dict:
    """Returns GPUs as [name, [major, minor] or None], findings as [level, text], and TensorFlow's version."""
    machine = devices.gather()
    return {"gpus": machine.gpus, "findings": list(devices.judge(machine)), "tensorflow": machine.tensorflow}


def compare_ctc_kernels() -> dict:
    """Returns the largest relative difference between the CTC kernels, and the one that is allowed.

    Exits with a sentence if cuDNN's kernel fails.
    """
    tf.compat.v1.disable_eager_execution()
    try:
        difference = ctc_check.measure_difference(tf.compat.v1.ConfigProto())
    except tf.errors.OpError as error:
        lines = (
            line for line in error.message.splitlines() if line and not line.startswith("Graph execution")
        )
        sys.exit(f"{type(error).__name__}: {next(lines, '')}")
    return {"difference": difference, "tolerance": ctc_check.TOLERANCE}


if __name__ == "__main__":
    tf.get_logger().setLevel(logging.ERROR)
    print(json.dumps({"devices": find_devices, "ctc": compare_ctc_kernels}[sys.argv[1]]()))
