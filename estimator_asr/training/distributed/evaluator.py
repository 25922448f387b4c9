"""The task "evaluator" of a cluster: evaluates each checkpoint beside the workers that train."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api
from estimator_asr.checkpointing import links
from estimator_asr.training import exporters
from estimator_asr.training import termination as hooks

_POLL_SECONDS = 1.0


def evaluate_checkpoints(
    estimator: estimator_api.Estimator,
    input_fn: Callable,
    chosen: Sequence[estimator_api.Exporter],
    *,
    is_last: Callable[[int], bool],
    throttle_seconds: float,
    termination: hooks.Termination,
) -> None:
    """Evaluates and exports until a checkpoint was the last one.

    Args:
        estimator: without a strategy.
        input_fn: of the dev split.
        chosen: exporters, in this order.
        is_last: whether training ends with the checkpoint of that step.
        throttle_seconds: least time between two evaluations; the last checkpoint does not wait.
        termination: ends it between two evaluations, or within one.

    Raises:
        hooks.Terminated: SIGTERM came.
    """
    known, not_before = None, 0.0
    while True:
        termination.raise_if_requested()
        checkpoint = tf.train.latest_checkpoint(estimator.model_dir)
        step = _read_step(checkpoint)
        if checkpoint == known or step is None or (time.monotonic() < not_before and not is_last(step)):
            time.sleep(_POLL_SECONDS)
            continue
        known, not_before = checkpoint, time.monotonic() + throttle_seconds
        if _evaluate(estimator, input_fn, chosen, checkpoint, is_last(step), termination) and is_last(step):
            return


def _evaluate(estimator, input_fn, chosen, checkpoint, is_last, termination):
    """Returns whether the checkpoint was still there; the chief may delete it meanwhile."""
    try:
        with links.hold(checkpoint) as held:
            stop = [hooks.StopEvaluationHook(termination)]
            figures = estimator.evaluate(input_fn, hooks=stop, checkpoint_path=held)
            for exporter in chosen:
                path = exporters.export_path(estimator.model_dir, exporter.name)
                exporter.export(estimator, path, held, figures, is_last)
    except links.DeletedError:
        logging.warning("%s: was deleted before it could be evaluated", checkpoint)
        return False
    return True


def _read_step(checkpoint):
    """Steps of a checkpoint; None if it is not there (any more)."""
    try:
        return int(tf.train.load_variable(checkpoint, "global_step")) if checkpoint else None
    except (tf.errors.OpError, ValueError):
        return None
