"""Learning-rate schedules: epochs and a mean batch size in, a rate for each global step out.

The step schedule and the warm-up follow learning_rate_with_decay of the TensorFlow official models
(official/r1/resnet/resnet_run_loop.py): piecewise constant between epoch boundaries, linear warm-up from
zero. Differences: the initial rate grows with the batch only where --learning_rate_batch_size is given, and
"batch size" is the mean number of utterances per step, because batches are cut by frames.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr.checkpointing import evaluation_log
from estimator_asr.training.optimizer import plateau


def initial_rate(config: config_lib.OptimizerConfig, batch_size: float) -> float:
    """Returns the learning rate, scaled to the mean utterances per step if the config asks for it."""
    if not config.learning_rate_batch_size:
        return config.learning_rate
    return config.learning_rate * batch_size / config.learning_rate_batch_size


def build_schedule(
    config: config_lib.OptimizerConfig,
    batch_size: float,
    steps_per_epoch: float,
    history: Optional[evaluation_log.History] = None,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the function from global step (int64 []) to learning rate (float32 []).

    Args:
        config: which schedule, its epochs and rates.
        batch_size: mean utterances per step.
        steps_per_epoch: steps that an epoch takes.
        history: error rates on dev; schedule plateau alone needs it.
    """
    initial = initial_rate(config, batch_size)
    warmup_steps = int(steps_per_epoch * config.warmup_epochs)
    decay = _SCHEDULES[config.schedule]
    if config.schedule == "plateau":
        decay = functools.partial(decay, history)

    def learning_rate(global_step):
        rate = tf.cast(decay(global_step, initial, config, steps_per_epoch, warmup_steps), tf.float32)
        if not warmup_steps:
            return rate
        warmup_rate = initial * tf.cast(global_step, tf.float32) / float(warmup_steps)
        return tf.where(global_step < warmup_steps, warmup_rate, rate)

    return learning_rate


def _step(global_step, initial, config, steps_per_epoch, warmup_steps):
    """The factor after a boundary begins one step after it, as in the official models."""
    boundaries = [int(steps_per_epoch * epoch) for epoch in config.decay_boundary_epochs]
    rates = [initial * factor for factor in config.decay_factors]
    if not boundaries:
        return tf.constant(rates[0])
    return tf.compat.v1.train.piecewise_constant(tf.cast(global_step, tf.int64), boundaries, rates)


def _exponential(global_step, initial, config, steps_per_epoch, warmup_steps):
    return initial * config.decay_rate ** _age(global_step, config, steps_per_epoch, warmup_steps)


def _inverse_time(global_step, initial, config, steps_per_epoch, warmup_steps):
    return initial / (1.0 + config.decay_rate * _age(global_step, config, steps_per_epoch, warmup_steps))


def _inverse_sqrt(global_step, initial, config, steps_per_epoch, warmup_steps):
    """Vaswani et al. 2017, section 5.3, scaled so that the warm-up ends at the initial rate."""
    start = float(max(warmup_steps, 1))
    return initial * tf.sqrt(start / tf.maximum(tf.cast(global_step, tf.float32), start))


def _plateau(history, global_step, initial, config, steps_per_epoch, warmup_steps):
    falls = plateau.read_falls(history, config.plateau_evaluations, warmup_steps, global_step)
    return initial * config.plateau_factor ** tf.cast(falls, tf.float32)


def _age(global_step, config, steps_per_epoch, warmup_steps):
    """Time since the warm-up in units of decay_epochs, float32 []."""
    steps = tf.maximum(tf.cast(global_step, tf.float32) - warmup_steps, 0.0)
    return steps / (config.decay_epochs * steps_per_epoch)


_SCHEDULES = {
    "step": _step,
    "exponential": _exponential,
    "inverse_time": _inverse_time,
    "inverse_sqrt": _inverse_sqrt,
    "plateau": _plateau,
}
