"""The learning rate falls when the error rate on dev stands still: how often it has, from the evaluations."""

from __future__ import annotations

import math
from collections.abc import Iterable

import tensorflow as tf

from estimator_asr.checkpointing import evaluation_log


def count_falls(rates: Iterable[tuple[int, float]], patience: int, warmup_steps: int) -> int:
    """Returns how often the rate has fallen.

    It falls after every `patience` evaluations without a new lowest error rate, counted anew after each fall.
    Evaluations up to the end of the warm-up set the lowest and are not counted: the rate was still rising.

    Args:
        rates: step and error rate, oldest first; NaN is never the lowest.
        patience: at least 1.
        warmup_steps: where the warm-up ends.
    """
    lowest, waited, falls = math.inf, 0, 0
    for step, error_rate in rates:
        if error_rate < lowest:
            lowest, waited = error_rate, 0
        elif step > warmup_steps:
            waited += 1
        if waited == patience:
            waited, falls = 0, falls + 1
    return falls


def read_falls(
    history: evaluation_log.History, patience: int, warmup_steps: int, global_step: tf.Tensor
) -> tf.Tensor:
    """Returns how often the rate has fallen at a step, int64 []; evaluations are looked up at every step.

    The value depends on the step and the recorded evaluations alone, so a training that is continued, and
    every replica and process, gives each step the same rate.

    Args:
        history: of the model directory.
        patience, warmup_steps: as for count_falls.
        global_step: int64 [], steps made before this one.
    """

    def count(step):
        return tf.int64.as_numpy_dtype(count_falls(history.known_at(int(step)), patience, warmup_steps))

    falls = tf.numpy_function(count, [global_step], tf.int64)
    falls.set_shape([])
    return falls
