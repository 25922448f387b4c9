"""The tasks by name. A new one needs an entry here and in task_spec.SPECS."""

from __future__ import annotations

from collections.abc import Callable

from estimator_asr import experiment
from estimator_asr.tasks import task


def _build_acoustic() -> task.Task:
    from estimator_asr.tasks import acoustic

    return acoustic.Acoustic()


def _build_language() -> task.Task:
    from estimator_asr.tasks import language

    return language.Language()


# A program loads the graph code of the models that it runs.
TASKS: dict[str, Callable[[], task.Task]] = {"acoustic": _build_acoustic, "language": _build_language}


def of(config: experiment.ExperimentConfig) -> task.Task:
    """Returns the task of a model's settings."""
    return TASKS[config.model]()
