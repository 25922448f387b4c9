"""The hooks of a training step: what is shown, watched and kept of it."""

from __future__ import annotations

from typing import NamedTuple

from estimator_asr import estimator_api, model_directory
from estimator_asr.training import course as course_lib
from estimator_asr.training import data_wait, hooks, objectives, optimization, worst_batch


class TrainingPlan(NamedTuple):
    """What only training needs to know."""

    course: course_lib.Course
    clock: hooks.Clock


def build(
    model: model_directory.ModelDirectory,
    plan: TrainingPlan,
    step: objectives.Step,
    error_rate_tag: str,
    num_parameters: int,
) -> list[estimator_api.SessionRunHook]:
    """Returns the hooks.

    Args:
        model: settings, and where files are written.
        plan: how long an epoch and the training are.
        step: what they look at.
        error_rate_tag: of the scalar that is shown as the error rate.
        num_parameters: of the model.
    """
    tensors = {
        "loss": step.scalars["avg-loss"],
        "error_rate": step.scalars[error_rate_tag],
        "inputs": step.num_inputs,
    }
    config, course = model.config, plan.course
    progress = hooks.ProgressHook(
        tensors,
        unit=course_lib.UNITS[model.config.model],
        max_steps=plan.course.max_steps,
        seconds=model.config.train.progress_seconds,
        num_replicas=optimization.num_replicas(),
        num_parameters=num_parameters,
        clock=plan.clock,
    )
    wait = data_wait.DataWaitHook(
        step.wait,
        step.number,
        every_steps=config.train.save_summary_steps,
        model_dir=model.path,
        seconds=lambda: plan.clock.seconds,
    )
    built = [progress, wait]
    if config.watch.try_worst_batch:
        shapes = worst_batch.candidates(course.stretch.plan)
        built.append(worst_batch.WorstBatchHook(step.gradient_norm, course.source, shapes))
    return built
