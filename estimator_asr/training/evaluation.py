"""Evaluation of checkpoints on dev during training."""

from __future__ import annotations

import dataclasses
import gc
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from estimator_asr.experiment import checkpoints, estimator_api, model_directory
from estimator_asr.training import stopping
from estimator_asr.training.checkpointing import best_checkpoints, evaluation_log

DEV_SPLIT = "dev"
_LINKS_DIRECTORY = "evaluating"
_POLL_SECONDS = 1.0


# Called after each evaluation with the Estimator, the checkpoint's path prefix and the metrics keyed by tag.
AfterEvaluation = Callable[[estimator_api.Estimator, str, Mapping[str, float]], None]


@dataclasses.dataclass(frozen=True)
class DevEvaluator:
    """Evaluates checkpoints on dev, keeps the best checkpoints and logs the metrics."""

    model: model_directory.ModelDirectory
    input_fn: Callable
    hooks: Sequence[estimator_api.SessionRunHook]
    after: Sequence[AfterEvaluation]  # called after each evaluation

    @property
    def throttle_seconds(self) -> float:
        """Minimum number of seconds between the starts of two evaluations."""
        return 0 if _decides_training(self.model.config) else self.model.config.train.eval_throttle_seconds

    def spec(self) -> estimator_api.EvalSpec:
        """Returns the EvalSpec to pass to train_and_evaluate."""
        return estimator_api.EvalSpec(
            self.input_fn,
            steps=None,
            hooks=self.hooks,
            exporters=[_Exporter(self.finish)],
            start_delay_secs=0,
            throttle_secs=self.throttle_seconds,
        )

    def run(self, estimator: estimator_api.Estimator, checkpoint: str) -> None:
        """Evaluates a checkpoint, then calls finish()."""
        metrics = estimator.evaluate(self.input_fn, hooks=self.hooks, checkpoint_path=checkpoint)
        self.finish(estimator, checkpoint, metrics)

    def finish(
        self, estimator: estimator_api.Estimator, checkpoint: str, metrics: Mapping[str, float]
    ) -> None:
        """Keeps the checkpoint if it is among the best, logs metrics, and calls the `after` functions."""
        # A logged evaluation counts as complete, so the best checkpoints must be saved before it is logged.
        best_checkpoints.keep_if_best(self.model, checkpoint, metrics)
        evaluation_log.record_metrics(estimator, metrics)
        shown = sorted((tag, value) for tag, value in metrics.items() if tag not in ("loss", "global_step"))
        text = "  ".join(f"{tag} {value:.4f}" for tag, value in shown)
        logging.info("dev at step %d: %s", metrics["global_step"], text)
        for call in self.after:
            call(estimator, checkpoint, metrics)
        # An evaluation's graphs and sessions form reference cycles, so their weights stay in memory until the
        # garbage collector happens to run: 8 MiB per evaluation, measured with 6 million weights.
        gc.collect()

    def catch_up(self, estimator: estimator_api.Estimator, is_last: Callable[[int], bool]) -> None:
        """Evaluates the newest checkpoint if an earlier run was killed before it could do so.

        Does nothing unless training ends with this checkpoint or depends on its evaluation. `is_last` returns
        True for a step at which training ends.
        """
        step, config = checkpoints.latest_step(self.model.path), self.model.config
        is_regular = step > 0 and step % config.train.save_checkpoints_steps == 0
        is_due = is_last(step) or (is_regular and _decides_training(config))
        if is_due and not is_evaluated(self.model.path, step):
            self.run(estimator, estimator.latest_checkpoint())

    def follow(
        self,
        estimator: estimator_api.Estimator,
        is_last: Callable[[int], bool],
        termination: stopping.Termination,
    ) -> None:
        """Evaluates each new checkpoint while the workers of a cluster train; returns after the last one.

        The last checkpoint is evaluated without waiting for throttle_seconds to pass. Raises
        stopping.Terminated if SIGTERM was received.
        """
        newest, not_before = None, 0.0
        while True:
            termination.raise_if_requested()
            checkpoint = checkpoints.find_latest(self.model.path)
            ends_training = checkpoint is not None and is_last(checkpoints.step_of(checkpoint))
            if checkpoint in (None, newest) or (time.monotonic() < not_before and not ends_training):
                time.sleep(_POLL_SECONDS)
                continue
            newest, not_before = checkpoint, time.monotonic() + self.throttle_seconds
            if self._run_on_links(estimator, checkpoint) and ends_training:
                return

    def _run_on_links(self, estimator, checkpoint):
        """Evaluates a checkpoint through hard links, because the chief may delete the checkpoint meanwhile.

        Returns False if the checkpoint has already been deleted.
        """
        directory = os.path.join(self.model.path, _LINKS_DIRECTORY)
        os.makedirs(directory, exist_ok=True)  # a killed evaluator may have left the directory
        try:
            try:
                linked = checkpoints.link(checkpoint, directory)
            except FileNotFoundError:
                logging.warning("%s was deleted before it could be evaluated", checkpoint)
                return False
            self.run(estimator, linked)
            return True
        finally:
            shutil.rmtree(directory, ignore_errors=True)


class _Exporter(estimator_api.Exporter):
    """An exporter that exports nothing; train_and_evaluate calls it at the end of each evaluation."""

    name = "dev"

    def __init__(self, finish: AfterEvaluation):
        self._finish = finish

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        self._finish(estimator, checkpoint_path, eval_result)


def is_evaluated(model_dir: str, step: int) -> bool:
    """Returns True if the checkpoint of this step has been evaluated on dev."""
    return any(evaluation.step == step for evaluation in evaluation_log.read_evaluations(model_dir))


def _decides_training(config):
    """Returns True if training depends on every evaluation; if so, none may be skipped to save time."""
    return config.optimizer.schedule == "plateau" or config.stopping.early_stopping_evaluations > 0
