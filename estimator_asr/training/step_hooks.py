"""The hooks of a training step: what is shown, watched and kept of it."""

from __future__ import annotations

from typing import NamedTuple

from estimator_asr import estimator_api, model_directory
from estimator_asr.training import histograms, objectives, optimization, profiler, progress

UNITS = {"acoustic": "frames", "language": "tokens"}


class TrainingPlan(NamedTuple):
    """What only training needs to know."""

    batch_size: float  # mean utterances per step
    steps_per_epoch: float
    max_steps: int
    clock: progress.Clock


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
    progress_hook = progress.ProgressHook(
        tensors,
        unit=UNITS[model.config.model],
        max_steps=plan.max_steps,
        seconds=model.config.train.progress_seconds,
        num_replicas=optimization.num_replicas(),
        num_parameters=num_parameters,
        clock=plan.clock,
    )
    return [progress_hook, *_build_display(model, step)]


def _build_display(model, step):
    """What only TensorBoard shows, at steps of its own."""
    display, chosen = model.config.display, []
    if display.histogram_steps:
        chosen.append(histograms.build_hook(step.gradients, display.histogram_steps, model.path))
    if display.profile_steps:
        chosen.append(profiler.ProfileHook(*display.profile_steps, model.path))
    return chosen
