"""On which devices a step runs, and the session that goes with it."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr import training_config
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import precision
from tfrecord_builder import errors


def check(config: training_config.TrainConfig, cluster: Optional[cluster_lib.Cluster]) -> None:
    """Refuses settings that do not go together, or that this machine cannot run.

    Raises:
        errors.UserError: naming both settings, or what is missing.
    """
    precision.check(config.precision)
    if cluster and config.num_local_workers > 1:
        raise errors.UserError(
            f"train: TF_CONFIG lists {len(cluster.workers)} workers and --num_local_workers="
            f"{config.num_local_workers}, expected one of them; unset TF_CONFIG or leave the flag out"
        )
    if config.num_cpu_replicas > 1 and (cluster or config.num_local_workers > 1):
        raise errors.UserError(
            f"train: --num_cpu_replicas={config.num_cpu_replicas} with several workers, expected 1; "
            "a worker on a CPU is one replica, so give more workers"
        )


def build_strategy(config: training_config.TrainConfig) -> Optional[tf.distribute.Strategy]:
    """Returns the strategy; None: one device, or the evaluator of a cluster.

    MultiWorkerMirroredStrategy where TF_CONFIG lists a cluster, else MirroredStrategy over several GPUs or
    the CPU replicas asked for. Call it before anything else of TensorFlow runs.

    Raises:
        errors.UserError: TF_CONFIG is wrong, or the port of this worker is taken.
    """
    cluster = cluster_lib.read()
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
    """Returns the session's settings; CPU replicas need as many CPU devices."""
    session = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    session.device_count["CPU"] = config.num_cpu_replicas
    if config.xla:
        session.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
    precision.rewrite(session, config.precision)
    return session
