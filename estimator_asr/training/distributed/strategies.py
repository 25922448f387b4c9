"""Distribution strategies and session settings: on which devices a training step runs."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr import training_config
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import precision
from tfrecord_builder import errors


def check(config: training_config.TrainConfig, cluster: Optional[cluster_lib.Cluster]) -> None:
    """Checks that the settings agree and that this machine supports them; warns about XLA on a CPU.

    Raises:
        errors.UserError: two settings contradict each other, or the hardware lacks the precision.
    """
    precision.check(config.precision)
    if config.num_cpu_replicas > 1 and cluster:
        raise errors.UserError(
            f"train: --num_cpu_replicas is {config.num_cpu_replicas} and TF_CONFIG lists "
            f"{len(cluster.workers)} workers, expected 1; a worker on a CPU is one replica; add workers"
        )
    if config.xla and not tf.config.list_physical_devices("GPU"):
        logging.warning(
            "--xla on a CPU: measured with a Conformer of 4 layers, a step took three times as long (553 ms "
            "instead of 182 ms) and compiling one shape took 44 s; leave it out"
        )


def build_strategy(
    config: training_config.TrainConfig, cluster: Optional[cluster_lib.Cluster] = None
) -> Optional[tf.distribute.Strategy]:
    """Returns the distribution strategy; None for one device, or for the evaluator of a cluster.

    MultiWorkerMirroredStrategy for a cluster, which reads it from TF_CONFIG; otherwise MirroredStrategy over
    several GPUs or the requested CPU replicas. Call it before anything else of TensorFlow runs.

    Raises:
        errors.UserError: the port of this worker is in use.
    """
    if cluster:
        cluster_lib.check_port(cluster)
        # The v1 class: the other one needs eager execution.
        create = tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
        return None if cluster.is_evaluator else create()
    if config.num_cpu_replicas > 1:
        return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(config.num_cpu_replicas)])
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return None


def session_config(config: training_config.TrainConfig) -> tf.compat.v1.ConfigProto:
    """Returns the session settings: CPU devices for CPU replicas, XLA, and the rewrites of the precision."""
    session = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    session.device_count["CPU"] = config.num_cpu_replicas
    if config.xla:
        session.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
    precision.rewrite(session, config.precision)
    return session
