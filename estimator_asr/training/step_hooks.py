"""The hooks of a training step: what is shown, watched and kept of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr import estimator_api, model_directory
from estimator_asr.checkpointing import evaluation_log
from estimator_asr.diagnostics import batch_dump, memory_probe, nan_recorder
from estimator_asr.models import losses, replicas
from estimator_asr.monitoring import data_wait, histograms, profiler, progress, watchdog
from estimator_asr.tasks import objective
from estimator_asr.training import early_stopping, step_time
from estimator_asr.training import plan as course_lib


class TrainingPlan(NamedTuple):
    """What only training needs to know.

    Attributes:
        course: how long an epoch and the training are.
        clock: time spent in steps.
        ctc_kernel: of models/losses.py.
        watchdog: None: nothing watches.
        records: reads a batch once more; None: no NaN recorder.
        is_alone: whether this process decides alone when training ends.
        doctor_command: what looks at data and model.
    """

    course: course_lib.TrainingPlan
    clock: step_time.Clock
    ctc_kernel: str = losses.CLASSIC
    watchdog: Optional[watchdog.Watchdog] = None
    records: Optional[Callable[[Sequence[int]], list[bytes]]] = None
    is_alone: bool = True
    doctor_command: str = "python -m estimator_asr.doctor"


def build(
    model: model_directory.ModelDirectory, plan: TrainingPlan, step: objective.Step
) -> list[estimator_api.SessionRunHook]:
    """Returns the hooks.

    Args:
        model: settings, and where files are written.
        plan: of the training.
        step: what they look at.
    """
    spec = model.config.spec
    recording = [_record_nan(model, plan, step)] if plan.records else []
    watching = [watchdog.WatchdogHook(plan.watchdog, step.number, step.scalars)] if plan.watchdog else []
    return [
        _show_progress(model, plan, step, spec.error_rate),
        _time_input(model, plan, step),
        *recording,
        *watching,
        *_look_at_batches(model, plan, step),
        *_show_more(model, step),
        *_stop_early(model, plan, step, spec.error_rate),
    ]


def _show_progress(model, plan, step, error_rate_tag):
    return progress.ProgressHook(
        {
            "number": step.number,
            "loss": step.scalars["avg-loss"],
            "error_rate": step.scalars[error_rate_tag],
            "inputs": step.num_inputs,
        },
        unit=model.config.spec.unit,
        max_steps=plan.course.max_steps,
        seconds=model.config.train.progress_seconds,
        num_replicas=replicas.num_replicas(),
        num_parameters=step.num_parameters,
        clock=plan.clock,
    )


def _time_input(model, plan, step):
    return data_wait.DataWaitHook(
        step.wait,
        step.number,
        every_steps=model.config.train.save_summary_steps,
        model_dir=model.path,
        seconds=lambda: plan.clock.seconds,
        doctor_command=plan.doctor_command,
    )


def _record_nan(model, plan, step):
    return nan_recorder.NanRecorderHook(
        {
            "is_finite": step.is_finite,
            "number": step.number,
            "position": step.features["seed"],
            "loss": step.loss,
            "gradient_norm": step.gradient_norm,
            "learning_rate": step.scalars["learning-rate"],
        },
        model_dir=model.path,
        config_json=model.config.to_json(indent=2),
        read_records=plan.records,
        fbank_dtype=plan.course.source.fbank_dtype,
        max_skipped=model.config.watch.skip_bad_batches,
        is_chief=tf.distribute.get_strategy().extended.should_checkpoint,
    )


def _stop_early(model, plan, step, error_rate_tag):
    patience = model.config.stopping.early_stopping_evaluations
    if not patience or not plan.is_alone:
        return []
    history = evaluation_log.History(model.path, error_rate_tag)
    return [early_stopping.EarlyStoppingHook(step.number, history, patience)]


def _look_at_batches(model, plan, step):
    watch, chosen = model.config.watch, []
    if watch.try_worst_batch:
        shapes = memory_probe.candidates(plan.course.progress.bucketing)
        hook = memory_probe.WorstBatchHook(
            step.gradient_norm,
            plan.course.source,
            memory_probe.token_shares(model, plan.course.source.unknown_fraction),
            shapes,
            replicas.num_replicas(),
            plan.course.first_step,
        )
        chosen.append(hook)
    if watch.dump_batches:
        dump = batch_dump.BatchDumpHook(
            step.features,
            step.labels,
            step.number,
            model_dir=model.path,
            num_batches=watch.dump_batches,
            num_replicas=replicas.num_replicas(),
            config=model.config.to_json(),
            data=plan.course.source.sha256,
        )
        chosen.append(dump)
    return chosen


def _show_more(model, step):
    """What only TensorBoard shows, at steps of its own."""
    display, chosen = model.config.display, []
    if display.histogram_steps:
        chosen.append(histograms.build_hook(step.gradients, display.histogram_steps, model.path))
    if display.profile_steps:
        chosen.append(profiler.ProfileHook(*display.profile_steps, model.path))
    return chosen
