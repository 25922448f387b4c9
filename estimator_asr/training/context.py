"""What the model_fn needs to know to train: made once, before the first graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.diagnostics import ctc_check
from estimator_asr.inputs import batch_source
from estimator_asr.models import losses
from estimator_asr.monitoring import advice, observations, watchdog
from estimator_asr.tasks import registry
from estimator_asr.training import plan as course_lib
from estimator_asr.training import step_hooks, step_time
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import schedules
from tfrecord_builder import dataset_info


def plan(
    model: model_directory.ModelDirectory,
    course: course_lib.TrainingPlan,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    command: str,
    cluster: Optional[cluster_lib.Cluster],
) -> step_hooks.TrainingPlan:
    """Returns what the model_fn needs to know to train.

    Args:
        model, infos, data_dirs, command: as for run_loop.train.
        course: of this run.
        cluster: that this process is part of; None: it trains alone.
    """
    looks = cluster is None or cluster.is_chief or cluster.is_evaluator  # at its steps, or at dev
    is_watched = model.config.watch.watchdog and looks
    return step_hooks.TrainingPlan(
        course,
        step_time.Clock(),
        _choose_ctc_kernel(model),
        _build_watchdog(model, course, data_dirs, command) if is_watched else None,
        _build_read_records(model.config, course, infos, data_dirs),
        is_alone=cluster is None,
        doctor_command=advice.doctor(",".join(data_dirs), model.path),
    )


def _build_read_records(config, course, infos, data_dirs):
    """How the NaN recorder reads a batch once more."""

    def read(position):
        return batch_source.read_batch(
            infos,
            data_dirs,
            course_lib.TRAIN_SPLIT,
            config.input,
            spec=config.spec,
            position=position,
        )

    return read


def _build_watchdog(model, course, data_dirs, command):
    config = model.config.optimizer
    training = observations.Training(
        command=command,
        model_dir=model.path,
        data_dir=",".join(data_dirs),
        error_rate=model.config.spec.error_rate,
        warmup_steps=int(course.steps_per_epoch * config.warmup_epochs),
        max_steps=course.max_steps,
        base_rate=config.learning_rate,
        peak_rate=schedules.initial_rate(config, course.batch_size),
        constant_loss_steps=model.config.watch.constant_loss_steps,
    )
    return watchdog.Watchdog(training)


def _choose_ctc_kernel(model):
    config = model.config.train
    has_gpu = config.num_cpu_replicas == 1 and bool(tf.config.list_physical_devices("GPU"))
    if not (has_gpu and registry.of(model.config).uses_ctc):
        return losses.CLASSIC
    return ctc_check.choose_kernel(strategies.session_config(config))
