"""Trains on parts of one GPU, each of which is a device of a replica of its own.

    python -m benchmarks.gpu_check.split_gpu 2 --model=acoustic --data_dir=DATA --model_dir=AM

Shows placement, collectives and memory of several replicas on a machine with one GPU. NCCL refuses two parts
of one GPU, so the gradients are added in rings, as between CPU replicas.
"""

from __future__ import annotations

import functools
import runpy
import sys

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf

from estimator_asr.training.distributed import strategies

_MEGABYTES = 3072  # of memory for each part; the trainings of the GPU check take less than 2 GiB


def split(number: int) -> None:
    """Makes so many devices of the first GPU, and lets the trainings of this process mirror on them."""
    parts = [tf.config.LogicalDeviceConfiguration(memory_limit=_MEGABYTES)] * number
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0], parts)
    strategies.build_strategy = lambda *_: strategies.mirror([f"/gpu:{i}" for i in range(number)])
    strategies.session_config = functools.partial(_describe_parts, strategies.session_config, number)


def _describe_parts(build, number, config):
    """Returns the session settings of `build` with the parts, because sessions know nothing of tf.config."""
    session = build(config)
    session.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[_MEGABYTES] * number)
    session.experimental.collective_nccl = False  # otherwise NCCL is used whatever the strategy asks for
    return session


if __name__ == "__main__":
    split(int(sys.argv.pop(1)))
    runpy.run_module("estimator_asr.train", run_name="__main__", alter_sys=True)
