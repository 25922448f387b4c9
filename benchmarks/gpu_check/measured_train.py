"""Trains like estimator_asr.train, then prints the peak memory as JSON.

    python -m benchmarks.gpu_check.measured_train 1 --model=acoustic --data_dir=DATA --model_dir=AM

If the first argument is 2 or more, the first GPU is split into that many parts, each of which is the
device of one replica. This shows placement, collectives and memory of several replicas on a machine with one
GPU. NCCL refuses two parts of one GPU, so the gradients are added in rings, as between CPU replicas.
"""

import functools
import json
import resource
import runpy
import sys

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf

from estimator_asr.training.distributed import strategies

_MEGABYTES = 3072  # memory per part; the trainings of the GPU check take less than 2 GiB


def split(number: int) -> None:
    """Splits the first GPU into `number` devices, on which this process's trainings are mirrored."""
    parts = [tf.config.LogicalDeviceConfiguration(memory_limit=_MEGABYTES)] * number
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("GPU")[0], parts)
    strategies.build_strategy = lambda *_: strategies.mirror([f"/gpu:{i}" for i in range(number)])
    strategies.session_config = functools.partial(_describe_parts, strategies.session_config, number)


def _describe_parts(build, number, config):
    """Returns the session settings of `build` with the parts, because sessions ignore tf.config."""
    session = build(config)
    session.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[_MEGABYTES] * number)
    session.experimental.collective_nccl = False  # otherwise NCCL is used whatever the strategy asks for
    return session


def measure_peak() -> dict:
    """Returns the peak memory of this process so far: `bytes`, and the `kind` of memory.

    If there are GPUs, this is the memory of the GPU that used the most; otherwise, it is the resident memory.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        infos = [tf.config.experimental.get_memory_info(f"GPU:{i}") for i in range(len(gpus))]
        return {"bytes": max(info["peak"] for info in infos), "kind": "GPU memory"}
    return {"bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "kind": "memory"}


if __name__ == "__main__":
    num_parts = int(sys.argv.pop(1))
    if num_parts > 1:
        split(num_parts)
    try:
        runpy.run_module("estimator_asr.train", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not ended.code:
            print(json.dumps(measure_peak()))
        raise
