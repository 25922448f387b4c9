from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr import config
from estimator_asr.training.optimizer import schedules

BATCH_SIZE, STEPS_PER_EPOCH = 64.0, 10.0


def rates(steps, history=None, **settings):
    """The rate at each step of a schedule whose initial rate is 1."""
    optimizer = config.OptimizerConfig(learning_rate=1.0, **settings)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = schedules.build_schedule(optimizer, BATCH_SIZE, STEPS_PER_EPOCH, history)(step)
        assert rate.dtype == tf.float32
        return [float(session.run(rate, {step: value})) for value in steps]


def test_the_learning_rate_does_not_depend_on_the_batch():
    settings = config.OptimizerConfig(learning_rate=0.1)
    assert [schedules.initial_rate(settings, batch_size) for batch_size in (1, 128)] == [0.1, 0.1]


def test_the_learning_rate_grows_with_the_batch_where_it_is_told_to():
    settings = config.OptimizerConfig(learning_rate=0.1, learning_rate_batch_size=256)
    assert schedules.initial_rate(settings, 128) == pytest.approx(0.05)


def test_step_schedule_at_start_warmup_end_and_each_boundary():
    settings = {"decay_boundary_epochs": (3, 5), "decay_factors": (1, 0.1, 0.01), "warmup_epochs": 2}
    # 20 steps of warm-up; the factor after a boundary holds from the step after it.
    steps = [0, 10, 19, 20, 30, 31, 50, 51, 1000]
    want = [0, 0.5, 0.95, 1, 1, 0.1, 0.1, 0.01, 0.01]
    np.testing.assert_allclose(rates(steps, **settings), want, rtol=1e-6)


def test_step_schedule_without_boundaries_is_constant():
    np.testing.assert_allclose(rates([0, 1, 500], warmup_epochs=0), [1, 1, 1])


def test_warmup_of_part_of_an_epoch():
    np.testing.assert_allclose(rates([0, 1, 4, 5, 6], warmup_epochs=0.5), [0, 0.2, 0.8, 1, 1], rtol=1e-6)


def test_exponential_falls_by_decay_rate_every_decay_epochs_after_warmup():
    settings = {"schedule": "exponential", "decay_rate": 0.5, "decay_epochs": 2, "warmup_epochs": 1}
    np.testing.assert_allclose(
        rates([5, 10, 20, 30, 50], **settings), [0.5, 1, 0.5**0.5, 0.5, 0.25], rtol=1e-6
    )


def test_inverse_time_falls_as_one_over_the_age():
    settings = {"schedule": "inverse_time", "decay_rate": 1.0, "decay_epochs": 1, "warmup_epochs": 1}
    np.testing.assert_allclose(
        rates([5, 10, 20, 30, 50], **settings), [0.5, 1, 1 / 2, 1 / 3, 1 / 5], rtol=1e-6
    )


def test_inverse_sqrt_meets_the_initial_rate_where_warmup_ends():
    settings = {"schedule": "inverse_sqrt", "warmup_epochs": 4}
    np.testing.assert_allclose(rates([0, 20, 40, 160, 640], **settings), [0, 0.5, 1, 0.5, 0.25], rtol=1e-6)


class Evaluated:
    """A history: error rates that have stood still since step 20."""

    def known_at(self, step):
        return [(value, min(value, 20) * -0.01) for value in range(10, step + 1, 10)]


def test_plateau_falls_by_its_factor_and_leaves_the_warmup_alone():
    settings = {"schedule": "plateau", "plateau_evaluations": 2, "plateau_factor": 0.1, "warmup_epochs": 1}
    # The lowest comes at 20; 30 and 40, then 50 and 60 bring nothing.
    steps, want = [0, 5, 10, 39, 40, 59, 60], [0, 0.5, 1, 1, 0.1, 0.1, 0.01]
    np.testing.assert_allclose(rates(steps, Evaluated(), **settings), want, rtol=1e-6)
    settings["warmup_epochs"] = 5  # nothing that is evaluated until step 50 counts
    np.testing.assert_allclose(rates([25, 50, 60, 70], Evaluated(), **settings), [0.5, 1, 1, 0.1], rtol=1e-6)
