"""Learning-rate schedules: functions that map the global step to a learning rate, configured in epochs.

The step schedule and the warm-up follow learning_rate_with_decay from the TensorFlow official models
(official/r1/resnet/resnet_run_loop.py): piecewise constant between epoch boundaries, with a linear warm-up
from zero. There are two differences: the initial rate scales with the batch size only if
learning_rate_batch_size is set (formerly a flag), and the batch size is the mean number of
utterances per step, because batches are limited by frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.training.checkpointing import evaluation_log

_ROUNDING = 1e-6  # tolerance in steps: 0.57 epochs of 100 steps evaluate to 56.99999999999999


def initial_rate(config: training_config.OptimizerConfig, batch_size: float) -> float:
    """Returns the initial learning rate, scaled by the mean batch size if learning_rate_batch_size is set."""
    if not config.learning_rate_batch_size:
        return config.learning_rate
    return config.learning_rate * batch_size / config.learning_rate_batch_size


def build_schedule(
    config: training_config.OptimizerConfig,
    batch_size: float,
    steps_per_epoch: float,
    history: Optional[evaluation_log.History] = None,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that maps a global step (int64 or float64 []) to a learning rate (float32 []).

    `batch_size` and `steps_per_epoch` are means; `history` holds the error rates for the plateau schedule.
    """
    initial = initial_rate(config, batch_size)
    warmup_steps = steps_per_epoch * config.warmup_epochs

    def age(global_step):
        """Returns the time since the end of the warm-up in units of decay_epochs, float64 []."""
        return tf.maximum(global_step - warmup_steps, 0.0) / (config.decay_epochs * steps_per_epoch)

    def step(global_step):
        """Applies each factor from its boundary step onwards, one step before the official models do."""
        boundaries = [steps_per_epoch * epoch - _ROUNDING for epoch in config.decay_boundary_epochs]
        passed = tf.math.count_nonzero(global_step >= tf.constant(boundaries, tf.float64))
        return tf.gather([initial * factor for factor in config.decay_factors], passed)

    def inverse_sqrt(global_step):
        """Follows Vaswani et al. (2017), section 5.3, scaled to end the warm-up at the initial rate."""
        start = max(warmup_steps, 1.0)
        return initial * tf.sqrt(start / tf.maximum(global_step, start))

    def plateau(global_step):
        """Rereads the evaluations in each step, so all replicas, processes and restarts use the same rate."""

        def count(step):
            rates = history.known_at(int(step))
            return tf.int64.as_numpy_dtype(count_reductions(rates, config.plateau_evaluations, warmup_steps))

        reductions = tf.numpy_function(count, [global_step], tf.int64)
        reductions.set_shape([])
        return initial * config.plateau_factor ** tf.cast(reductions, tf.float32)

    decays = {
        "step": step,
        "exponential": lambda global_step: initial * config.decay_rate ** age(global_step),
        "inverse_time": lambda global_step: initial / (1.0 + config.decay_rate * age(global_step)),
        "inverse_sqrt": inverse_sqrt,
        "plateau": plateau,
    }

    def learning_rate(global_step):
        global_step = tf.cast(global_step, tf.float64)
        rate = tf.cast(decays[config.schedule](global_step), tf.float32)
        if not warmup_steps:
            return rate
        warmup_rate = tf.cast(initial * global_step / warmup_steps, tf.float32)
        return tf.where(global_step < warmup_steps - _ROUNDING, warmup_rate, rate)

    return learning_rate


def count_reductions(rates: Iterable[tuple[int, float]], patience: int, warmup_steps: float) -> int:
    """Returns the number of times that the plateau schedule has reduced the learning rate.

    The schedule reduces the rate after every `patience` evaluations without a new lowest error rate. An
    evaluation during the warm-up can set the lowest error rate, but does not count towards `patience`,
    because the learning rate is still rising. `rates` are (step, error rate) pairs, oldest first; NaN is
    never the lowest.
    """
    lowest, waited, reductions = math.inf, 0, 0
    for step, error_rate in rates:
        if error_rate < lowest:
            lowest, waited = error_rate, 0
        elif step > warmup_steps:
            waited += 1
        if waited == patience:
            waited, reductions = 0, reductions + 1
    return reductions
