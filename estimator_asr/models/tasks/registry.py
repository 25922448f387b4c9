"""Registry of the tasks, by name. A new task needs an entry here and in task_spec.SPECS."""

from __future__ import annotations

from collections.abc import Callable

from estimator_asr.experiment import experiment, model_directory
from estimator_asr.models.tasks import task


# The tasks are imported late, so that a program loads graph code only for the models that it runs.
def _load_acoustic():
    from estimator_asr.models.tasks import acoustic

    return acoustic.Acoustic


def _load_language():
    from estimator_asr.models.tasks import language

    return language.Language


TASKS: dict[str, Callable[[], type[task.Task]]] = {"acoustic": _load_acoustic, "language": _load_language}


def of(model: model_directory.ModelDirectory) -> task.Task:
    """Returns the task for a model."""
    return TASKS[model.config.model]()(model)


def complete(config: experiment.ExperimentConfig) -> experiment.ExperimentConfig:
    """Returns the settings for a new run, with derived settings filled in; see Task.complete."""
    return TASKS[config.model]().complete(config)
