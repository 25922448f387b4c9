"""Chooses the task for a model. A new task needs an entry here and in task_spec.SPECS."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from estimator_asr.experiment import experiment, model_directory
from estimator_asr.models.tasks import task


def _import(module: str, name: str) -> Callable[[], type[task.Task]]:
    """Returns a function that imports a task, so that a program loads graph code only for its models."""
    return lambda: getattr(importlib.import_module(f"estimator_asr.models.tasks.{module}"), name)


TASKS = {
    "acoustic": _import("acoustic_task", "Acoustic"),
    "language": _import("language_task", "Language"),
    "punctuation": _import("punctuation_task", "Punctuation"),
}


def for_model(model: model_directory.ModelDirectory) -> task.Task:
    """Returns the task for a model."""
    return TASKS[model.config.model]()(model)


def complete(config: experiment.ExperimentConfig) -> experiment.ExperimentConfig:
    """Returns the settings for a new run, with derived settings filled in; see Task.complete."""
    return TASKS[config.model]().complete(config)
