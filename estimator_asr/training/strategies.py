"""On which devices a step runs, and the session that goes with it."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr import config as config_lib


def build_strategy(config: config_lib.TrainConfig) -> Optional[tf.distribute.MirroredStrategy]:
    """Returns MirroredStrategy over several GPUs or the CPU replicas asked for, None for one device."""
    if config.num_cpu_replicas > 1:
        return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(config.num_cpu_replicas)])
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return None


def session_config(config: config_lib.TrainConfig) -> tf.compat.v1.ConfigProto:
    """Returns the session's settings; CPU replicas need as many CPU devices."""
    session = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    session.device_count["CPU"] = config.num_cpu_replicas
    if config.xla:
        session.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
    return session
