"""Evaluator task of a cluster: evaluates each checkpoint while the workers train."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from absl import logging

from estimator_asr import estimator_api
from estimator_asr.checkpointing import checkpoints, links
from estimator_asr.training import exporters as exporters_lib
from estimator_asr.training import termination as hooks

_POLL_SECONDS = 1.0


def evaluate_checkpoints(
    estimator: estimator_api.Estimator,
    input_fn: Callable,
    exporters: Sequence[estimator_api.Exporter],
    *,
    is_last: Callable[[int], bool],
    throttle_seconds: float,
    termination: hooks.Termination,
) -> None:
    """Evaluates and exports each new checkpoint until the last one.

    Args:
        estimator: built without a distribution strategy.
        input_fn: of the dev split.
        exporters: called in this order after each evaluation.
        is_last: whether training ends with the checkpoint of that step.
        throttle_seconds: minimum time between two evaluations; the last checkpoint does not wait.
        termination: ends the loop between two evaluations, or within one.

    Raises:
        hooks.Terminated: SIGTERM was received.
    """
    known, not_before = None, 0.0
    while True:
        termination.raise_if_requested()
        checkpoint = checkpoints.find_latest(estimator.model_dir)
        if checkpoint in (None, known) or (
            time.monotonic() < not_before and not is_last(checkpoints.step_of(checkpoint))
        ):
            time.sleep(_POLL_SECONDS)
            continue
        known, not_before = checkpoint, time.monotonic() + throttle_seconds
        ends_training = is_last(checkpoints.step_of(checkpoint))
        if (
            _evaluate(estimator, input_fn, exporters, checkpoint, ends_training, termination)
            and ends_training
        ):
            return


def _evaluate(estimator, input_fn, exporters, checkpoint, is_last, termination):
    """Returns False if the chief deleted the checkpoint first."""
    try:
        with links.hold(checkpoint) as held:
            stop = [hooks.StopEvaluationHook(termination)]
            metrics = estimator.evaluate(input_fn, hooks=stop, checkpoint_path=held)
            for exporter in exporters:
                path = exporters_lib.export_path(estimator.model_dir, exporter.name)
                exporter.export(estimator, path, held, metrics, is_last)
    except links.DeletedError:
        logging.warning("%s: was deleted before it could be evaluated", checkpoint)
        return False
    return True
