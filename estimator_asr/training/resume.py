"""Where a run begins, and whether there is anything left to do."""

from __future__ import annotations

from typing import Optional

from absl import logging

from estimator_asr import model_directory
from estimator_asr.checkpointing import checkpoints, evaluation_log, recovery
from estimator_asr.training import early_stopping, exporters, plan


def find_step(model: model_directory.ModelDirectory, is_writer: bool) -> int:
    """Returns the step of the newest checkpoint that opens; 0 if there is none.

    Args:
        model: checkpoints of another model are refused.
        is_writer: whether this process may put aside what is damaged; others find the same one.

    Raises:
        errors.UserError: no checkpoint opens, or the newest is of another model or lacks what the optimizer
            needs.
    """
    checkpoint = recovery.recover(model.path) if is_writer else recovery.find(model.path)[0]
    step = 0
    if checkpoint:
        checkpoints.check(checkpoint, model)
        config = model.config
        checkpoints.require_optimizer(checkpoint, config.optimizer.optimizer, config.train.precision)
        step = checkpoints.global_step(checkpoint)
    if is_writer:
        evaluation_log.forget_after(model.path, step)
    logging.info("%s: %s", model.path, f"continues from step {step}" if checkpoint else "new model")
    return step


def find_end(model: model_directory.ModelDirectory, course: plan.TrainingPlan, step: int) -> Optional[str]:
    """Returns why there is no step to make behind `step`, for people; None if there is one."""
    if step >= course.max_steps:
        return f"already at step {step} of {course.max_steps}"
    history = evaluation_log.History(model.path, model.config.spec.error_rate)
    reason = early_stopping.find_reason(history, model.config.stopping.early_stopping_evaluations, step)
    return f"stopped early at step {step}, {reason}" if reason else None


def is_exported(model_dir: str, step: int) -> bool:
    """Returns whether an earlier run came to its very end, and did not stop between its last checkpoint and
    that."""
    final = exporters.export_path(model_dir, exporters.FinalExporter.name)
    return exporters.read_evaluation(final).get("global_step") == step
