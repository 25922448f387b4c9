"""Evaluator task of a cluster: evaluates each checkpoint while the workers train."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable

from absl import logging

from estimator_asr.checkpointing import checkpoints
from estimator_asr.training import stopping

_LINKS_DIRECTORY = "evaluating"
_POLL_SECONDS = 1.0


def evaluate_checkpoints(
    model_dir: str,
    evaluate: Callable[[str], object],
    *,
    is_last: Callable[[int], bool],
    throttle_seconds: float,
    termination: stopping.Termination,
) -> None:
    """Evaluates each new checkpoint, until the last one of the training.

    Args:
        model_dir: where the checkpoints are written.
        evaluate: evaluates a checkpoint, given its prefix.
        is_last: whether training ends with the checkpoint of that step.
        throttle_seconds: minimum time between two evaluations; the last checkpoint does not wait.
        termination: whether SIGTERM came.

    Raises:
        stopping.Terminated: SIGTERM came.
    """
    known, not_before = None, 0.0
    while True:
        termination.raise_if_requested()
        checkpoint = checkpoints.find_latest(model_dir)
        if checkpoint in (None, known) or (
            time.monotonic() < not_before and not is_last(checkpoints.step_of(checkpoint))
        ):
            time.sleep(_POLL_SECONDS)
            continue
        known, not_before = checkpoint, time.monotonic() + throttle_seconds
        ends_training = is_last(checkpoints.step_of(checkpoint))
        if _evaluate(evaluate, checkpoint) and ends_training:
            return


def _evaluate(evaluate, checkpoint):
    """Evaluates links to a checkpoint, which the chief may delete; returns False if it did before."""
    directory = os.path.join(os.path.dirname(checkpoint), _LINKS_DIRECTORY)
    os.makedirs(directory, exist_ok=True)  # left by a killed evaluator, or by NFS, which keeps open files
    try:
        try:
            linked = checkpoints.link(checkpoint, directory)
        except FileNotFoundError:
            logging.warning("%s: was deleted before it could be evaluated", checkpoint)
            return False
        evaluate(linked)
        return True
    finally:
        shutil.rmtree(directory, ignore_errors=True)
