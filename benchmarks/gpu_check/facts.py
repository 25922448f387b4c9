"""Prints facts about this machine's GPUs as JSON, in a separate process because a driver may hang or crash.

python -m benchmarks.gpu_check.facts    # findings of the doctor, GPUs with compute capability
"""

import json
import logging

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf

from estimator_asr.monitoring.diagnostics.doctor import devices


def find_devices() -> dict:
    """Returns GPUs as [name, [major, minor] or None], findings as [level, text], and TensorFlow's version."""
    machine = devices.gather()
    return {"gpus": machine.gpus, "findings": list(devices.judge(machine)), "tensorflow": machine.tensorflow}


if __name__ == "__main__":
    tf.get_logger().setLevel(logging.ERROR)
    print(json.dumps(find_devices()))
