"""Evaluation on dev, and what follows each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr import estimator_api, model_directory
from estimator_asr.checkpointing import evaluation_log
from estimator_asr.training import exporters


class Evaluation(NamedTuple):
    """How a checkpoint is evaluated.

    Attributes:
        input_fn: of dev; None: there is no such split.
        hooks: of the evaluation.
        exporters: called with its figures, one after the other.
    """

    input_fn: Optional[Callable]
    hooks: Sequence[estimator_api.SessionRunHook]
    exporters: Sequence[estimator_api.Exporter]

    def spec(self, throttle_seconds: float) -> estimator_api.EvalSpec:
        """Returns what train_and_evaluate takes."""
        return estimator_api.EvalSpec(
            self.input_fn,
            steps=None,
            hooks=self.hooks,
            exporters=self.exporters,
            start_delay_secs=0,
            throttle_secs=throttle_seconds,
        )

    def finish(self, estimator: estimator_api.Estimator) -> None:
        """Evaluates and exports the last checkpoint."""
        figures = estimator.evaluate(self.input_fn, hooks=self.hooks) if self.input_fn else {}
        self.export(estimator, figures, is_last=True)

    def make_up(self, estimator: estimator_api.Estimator, model: model_directory.ModelDirectory) -> None:
        """Makes the evaluation of a checkpoint during which an earlier run was killed, where it counts."""
        step = latest_step(model.path)
        known = {evaluation.step for evaluation in evaluation_log.read(model.path)}
        is_due = step and step % model.config.train.save_checkpoints_steps == 0 and step not in known
        if is_due and counts(model):
            self.export(estimator, estimator.evaluate(self.input_fn, hooks=self.hooks), is_last=False)

    def export(self, estimator: estimator_api.Estimator, figures: dict, is_last: bool) -> None:
        """Calls the exporters for the newest checkpoint."""
        export(self.exporters, estimator, figures, is_last)

    def export_final(self, estimator: estimator_api.Estimator, figures: dict) -> None:
        """Writes the final SavedModel, which train_and_evaluate leaves out where training stopped early."""
        final = [each for each in self.exporters if each.name == exporters.FinalExporter.name]
        export(final, estimator, figures, is_last=True)


def export(chosen, estimator: estimator_api.Estimator, figures: dict, is_last: bool) -> None:
    """Calls exporters for the newest checkpoint."""
    figures = {"global_step": latest_step(estimator.model_dir), **figures}
    for exporter in chosen:
        path = exporters.export_path(estimator.model_dir, exporter.name)
        exporter.export(estimator, path, estimator.latest_checkpoint(), figures, is_last)


def counts(model: model_directory.ModelDirectory) -> bool:
    """Returns whether training depends on the evaluations; then none is left out to save time."""
    by_rate = model.config.optimizer.schedule == "plateau"
    return by_rate or model.config.stopping.early_stopping_evaluations > 0


def throttle_seconds(model: model_directory.ModelDirectory) -> float:
    """Returns the least time between two evaluations."""
    return 0 if counts(model) else model.config.train.eval_throttle_seconds


def latest_step(model_dir: str) -> int:
    """Returns the step of the newest checkpoint; 0 if there is none."""
    checkpoint = tf.train.latest_checkpoint(model_dir)
    return int(tf.train.load_variable(checkpoint, "global_step")) if checkpoint else 0
