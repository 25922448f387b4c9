"""The rounds of training and evaluation: in one process, as one of several workers, as their evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from absl import logging

from estimator_asr import estimator_api, model_directory
from estimator_asr.checkpointing import evaluation_log
from estimator_asr.checkpointing import saver as regular_saver
from estimator_asr.training import early_stopping, evaluation, resume, step_hooks
from estimator_asr.training import termination as hooks
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import coordinated_stop, evaluator


class Run(NamedTuple):
    """All that the rounds need.

    Attributes:
        model: is trained.
        plan: of the training.
        build_estimator: makes the Estimator; called with whether it is one of several workers.
        input_fn: of training.
        evaluation: of dev.
        termination: whether SIGTERM came.
    """

    model: model_directory.ModelDirectory
    plan: step_hooks.TrainingPlan
    build_estimator: Callable[[bool], estimator_api.Estimator]
    input_fn: Callable
    evaluation: evaluation.Evaluation
    termination: hooks.Termination

    @property
    def max_steps(self) -> int:
        return self.plan.course.max_steps

    def find_end(self, step: int) -> bool:
        return resume.find_end(self.model, self.plan.course, step) is not None


def alone(run: Run) -> None:
    """Trains; the last checkpoint is evaluated and exported even if an earlier run ended before it could."""
    estimator = run.build_estimator(False)
    saver = regular_saver.RegularSaver(run.model.path, run.model.config.train.save_checkpoints_steps)
    # The saver comes last: after SIGTERM its listener leaves, and the hooks behind it never end.
    own = [hooks.StopTrainingHook(run.termination), saver]
    listeners = [hooks.CheckpointListener(run.termination, run.plan.clock)]
    if run.evaluation.input_fn is None:
        estimator.train(run.input_fn, own, max_steps=run.max_steps, saving_listeners=listeners)
        run.evaluation.finish(estimator)
        return
    run.evaluation.make_up(estimator, run.model)
    if run.find_end(evaluation.latest_step(run.model.path)):
        run.evaluation.finish(estimator)
        return
    train_spec = estimator_api.TrainSpec(run.input_fn, run.max_steps, own, listeners)
    eval_spec = run.evaluation.spec(evaluation.throttle_seconds(run.model))
    figures, _ = estimator_api.train_and_evaluate(estimator, train_spec, eval_spec)
    if evaluation.latest_step(run.model.path) < run.max_steps:
        run.evaluation.export_final(estimator, figures)


def together(run: Run, cluster: cluster_lib.Cluster) -> None:
    """Takes part as one of several workers; what is left at the end the chief does alone.

    train_and_evaluate evaluates nothing and calls no listeners in a cluster.
    """
    if cluster.is_chief and cluster.evaluator is None:
        logging.warning("TF_CONFIG: lists no evaluator, so dev is evaluated once, when training has ended")
    # Not whether it stopped early: an evaluation that one sees and another does not yet would part them.
    if evaluation.latest_step(run.model.path) < run.max_steps:
        agree = coordinated_stop.CoordinatedStopHook(
            run.termination, len(cluster.workers), _stopping_criterion(run)
        )
        train_spec = estimator_api.TrainSpec(run.input_fn, run.max_steps, [agree])
        unused = estimator_api.EvalSpec(run.input_fn)
        estimator_api.train_and_evaluate(run.build_estimator(True), train_spec, unused)
    run.termination.raise_if_requested()
    if cluster.is_chief and (run.evaluation.input_fn is None or cluster.evaluator is None):
        cluster_lib.write(None)
        run.evaluation.finish(run.build_estimator(False))


def _stopping_criterion(run):
    patience = run.model.config.stopping.early_stopping_evaluations
    history = evaluation_log.History(run.model.path, run.model.config.spec.error_rate)
    return lambda step: early_stopping.find_reason(history, patience, step) is not None


def evaluate(run: Run) -> None:
    """Evaluates each checkpoint of the workers until the last one."""
    if run.evaluation.input_fn is not None:
        evaluator.evaluate_checkpoints(
            run.build_estimator(False),
            run.evaluation.input_fn,
            run.evaluation.exporters,
            is_last=run.find_end,
            throttle_seconds=evaluation.throttle_seconds(run.model),
            termination=run.termination,
        )
