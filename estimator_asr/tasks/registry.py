"""The tasks by name. A new one needs an entry here and in task_spec.SPECS."""

from __future__ import annotations

from estimator_asr import experiment
from estimator_asr.tasks import acoustic, language, task

TASKS: dict[str, task.Task] = {each.spec.name: each for each in (acoustic.Acoustic(), language.Language())}


def of(config: experiment.ExperimentConfig) -> task.Task:
    """Returns the task of a model's settings."""
    return TASKS[config.model]
