"""Distributed training functions that tensorflow-estimator 2.15 needs and TensorFlow no longer includes.

estimator_api substitutes this module for tensorflow.python.distribute.estimator_training, which was part of
TensorFlow until 2.15. Each process in a cluster runs the task in its TF_CONFIG ("independent worker"), as
MultiWorkerMirroredStrategy requires; parameter servers are not supported. This module sets private attributes
of RunConfig and Estimator (run_config.py and estimator.py in tensorflow-estimator, pinned to one release).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf
from tensorflow.python.distribute import distribute_coordinator, distribute_coordinator_context

_MODE = distribute_coordinator.CoordinatorMode.INDEPENDENT_WORKER


def init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Completes a RunConfig that has a distribution strategy; `tf_config` is TF_CONFIG, or {} if it is unset.

    In a cluster with a training strategy, the coordinator sets the task later (see _describe_task).
    Otherwise, the task is read from `tf_config`.
    """
    cluster = tf.train.ClusterSpec(tf_config.get("cluster", {}))
    is_coordinated = bool(cluster) and "master" not in cluster.jobs and config._train_distribute is not None
    config._init_distributed_setting_from_environment_var({} if is_coordinated else tf_config)
    if is_coordinated:
        config._cluster_spec = cluster
    else:
        config._maybe_overwrite_session_config_for_distributed_training()
    config._distribute_coordinator_mode = _MODE if is_coordinated else None


def should_run_distribute_coordinator(config: Any) -> bool:
    """Returns True if train_and_evaluate runs in a cluster with a distribution strategy."""
    is_coordinated = getattr(config, "_distribute_coordinator_mode", None) == _MODE
    return is_coordinated and bool(config.cluster_spec)


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Callable) -> None:
    """Runs this process's task: a worker trains, and the evaluator evaluates each checkpoint.

    Each task uses its own copy of the estimator. `executor_cls` is the class in tensorflow-estimator that
    evaluates continuously.
    """

    def train(strategy):
        local = _copy_for_task(estimator, strategy, "train")
        local.train(train_spec.input_fn, hooks=list(train_spec.hooks), max_steps=train_spec.max_steps)

    def evaluate(strategy):
        local = _copy_for_task(estimator, strategy, "eval")
        executor_cls(local, train_spec, eval_spec)._start_continuous_evaluation()

    distribute_coordinator.run_distribute_coordinator(
        train,
        estimator.config.train_distribute,
        evaluate,
        estimator.config.eval_distribute,
        mode=_MODE,
        session_config=estimator.config.session_config,
    )


def _copy_for_task(estimator: Any, strategy: Optional[tf.distribute.Strategy], phase: str) -> Any:
    """Returns a copy of the estimator for the coordinator's task; `phase` is "train" or "eval"."""
    local = copy.deepcopy(estimator)
    config = local._config  # the property `config` returns a copy
    _describe_task(config, distribute_coordinator_context.get_current_worker_context())
    setattr(local, f"_{phase}_distribution", strategy)
    setattr(config, f"_{phase}_distribute", strategy)
    config._distribute_coordinator_mode = None  # otherwise local.train would call the coordinator again
    return local


def _describe_task(config, context):
    """Completes a RunConfig with the task that the coordinator assigned to this process."""
    config._service = None
    config._task_type, config._task_id = context.task_type, context.task_id
    config._master = config._evaluation_master = context.master_target
    config._is_chief = context.is_chief
    if context.task_type == "evaluator":  # the evaluator is not part of the training cluster
        config._cluster_spec = tf.train.ClusterSpec({})
        config._num_worker_replicas, config._global_id_in_cluster = 0, None
        return
    config._cluster_spec = context.cluster_spec
    jobs = context.cluster_spec.as_dict() if context.cluster_spec else {}
    num_chiefs, num_workers = (len(jobs.get(job, ())) for job in ("chief", "worker"))
    config._num_worker_replicas = num_chiefs + num_workers or 1
    first_id = num_chiefs if context.task_type == "worker" else 0
    config._global_id_in_cluster = first_id + (context.task_id or 0)


def estimator_train(estimator: Any, train: Callable, hooks: Any) -> None:
    """Raises ValueError, because Estimator.train is not supported in a cluster."""
    raise ValueError("Estimator.train does not support a strategy in a cluster; call train_and_evaluate")


def estimator_evaluate(estimator: Any, evaluate: Callable, hooks: Any) -> None:
    """Raises ValueError, because Estimator.evaluate is not supported in a cluster."""
    raise ValueError("Estimator.evaluate does not support a strategy in a cluster; call train_and_evaluate")
