from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.training.optimizer import schedules

BATCH_SIZE, STEPS_PER_EPOCH = 64.0, 10.0


def rates(steps, history=None, steps_per_epoch=STEPS_PER_EPOCH, **settings):
    """The rate at each step of a schedule whose initial rate is 1."""
    optimizer = training_config.OptimizerConfig(learning_rate=1.0, **settings)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = schedules.build_schedule(optimizer, BATCH_SIZE, steps_per_epoch, history)(step)
        assert rate.dtype == tf.float32
        return [float(session.run(rate, {step: value})) for value in steps]


def test_the_learning_rate_does_not_depend_on_the_batch():
    settings = training_config.OptimizerConfig(learning_rate=0.1)
    assert [schedules.initial_rate(settings, batch_size) for batch_size in (1, 128)] == [0.1, 0.1]


def test_the_learning_rate_scales_with_the_batch_if_configured():
    settings = training_config.OptimizerConfig(learning_rate=0.1, learning_rate_batch_size=256)
    assert schedules.initial_rate(settings, 128) == pytest.approx(0.05)


def test_step_schedule_at_start_warmup_end_and_each_boundary():
    settings = {"decay_boundary_epochs": (3, 5), "decay_factors": (1, 0.1, 0.01), "warmup_epochs": 2}
    # 20 steps of warm-up; epoch 3 is complete, and its factor holds, from step 30 on.
    steps = [0, 10, 19, 20, 29, 30, 31, 49, 50, 51, 1000]
    want = [0, 0.5, 0.95, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01]
    np.testing.assert_allclose(rates(steps, **settings), want, rtol=1e-6)


@pytest.mark.parametrize(
    "epoch, steps_per_epoch, first",
    [
        (0.29, 100, 29),  # 0.29 * 100 is 28.999999999999996
        (0.57, 100, 57),  # 56.99999999999999
        (1.1, 100, 110),  # 110.00000000000001
        (1.1, 30, 33),
        (0.57, 1000, 570),
        (0.29, 7, 3),  # 2.03: step 2 is before the boundary
        (0.57, 10, 6),
        (1.1, 12.5, 14),  # 13.75, of accumulated gradients
        (2, 12.5, 25),
    ],
)
def test_a_decay_factor_applies_from_the_first_step_at_or_after_its_epoch(epoch, steps_per_epoch, first):
    settings = {"decay_boundary_epochs": (epoch,), "decay_factors": (1, 0.5), "warmup_epochs": 0}
    steps = [first - 1, first, first + 1]
    assert rates(steps, steps_per_epoch=float(steps_per_epoch), **settings) == [1, 0.5, 0.5]


def test_two_boundaries_within_one_step():
    settings = {"decay_boundary_epochs": (0.51, 0.53), "decay_factors": (1, 0.5, 0.25), "warmup_epochs": 0}
    assert rates([5, 6], **settings) == [1, 0.25]


def test_step_schedule_without_boundaries_is_constant():
    np.testing.assert_allclose(rates([0, 1, 500], warmup_epochs=0), [1, 1, 1])


def test_warmup_can_end_within_an_epoch():
    np.testing.assert_allclose(rates([0, 1, 4, 5, 6], warmup_epochs=0.5), [0, 0.2, 0.8, 1, 1], rtol=1e-6)


@pytest.mark.parametrize("epochs, end", [(0.29, 29), (0.57, 57), (1.1, 110)])
def test_warmup_ends_at_the_step_of_its_epoch(epochs, end):
    got = rates([end - 1, end, end + 1], steps_per_epoch=100.0, warmup_epochs=epochs)
    np.testing.assert_allclose(got, [(end - 1) / end, 1, 1], rtol=1e-6)


def test_warmup_that_ends_between_two_steps():
    np.testing.assert_allclose(rates([2, 3], warmup_epochs=0.25), [0.8, 1], rtol=1e-6)  # after 2.5 steps


@pytest.mark.parametrize("schedule, want", [("exponential", 0.5), ("inverse_time", 2 / 3)])
def test_a_decay_starts_where_the_warmup_ends(schedule, want):
    settings = {"schedule": schedule, "decay_rate": 0.5, "decay_epochs": 1, "warmup_epochs": 0.29}
    got = rates([29, 129], steps_per_epoch=100.0, **settings)
    np.testing.assert_allclose(got, [1, want], rtol=1e-6)


def test_exponential_decays_by_decay_rate_every_decay_epochs_after_warmup():
    settings = {"schedule": "exponential", "decay_rate": 0.5, "decay_epochs": 2, "warmup_epochs": 1}
    np.testing.assert_allclose(
        rates([5, 10, 20, 30, 50], **settings), [0.5, 1, 0.5**0.5, 0.5, 0.25], rtol=1e-6
    )


def test_inverse_time_decays_as_one_over_the_age():
    settings = {"schedule": "inverse_time", "decay_rate": 1.0, "decay_epochs": 1, "warmup_epochs": 1}
    np.testing.assert_allclose(
        rates([5, 10, 20, 30, 50], **settings), [0.5, 1, 1 / 2, 1 / 3, 1 / 5], rtol=1e-6
    )


def test_inverse_sqrt_meets_the_initial_rate_where_warmup_ends():
    settings = {"schedule": "inverse_sqrt", "warmup_epochs": 4}
    np.testing.assert_allclose(rates([0, 20, 40, 160, 640], **settings), [0, 0.5, 1, 0.5, 0.25], rtol=1e-6)


class Evaluated:
    """A history: error rates without a new lowest since step 20."""

    def known_at(self, step):
        return [(value, min(value, 20) * -0.01) for value in range(10, step + 1, 10)]


def test_plateau_reduces_by_its_factor_after_the_warmup():
    settings = {"schedule": "plateau", "plateau_evaluations": 2, "plateau_factor": 0.1, "warmup_epochs": 1}
    # The lowest comes at 20; 30 and 40, then 50 and 60 bring no new lowest.
    steps, want = [0, 5, 10, 39, 40, 59, 60], [0, 0.5, 1, 1, 0.1, 0.1, 0.01]
    np.testing.assert_allclose(rates(steps, Evaluated(), **settings), want, rtol=1e-6)
    settings["warmup_epochs"] = 5  # evaluations until step 50 do not count
    np.testing.assert_allclose(rates([25, 50, 60, 70], Evaluated(), **settings), [0.5, 1, 1, 0.1], rtol=1e-6)


def test_plateau_looks_evaluations_up_at_each_step_in_a_finalized_graph():
    history = Evaluated()
    settings = training_config.OptimizerConfig(
        learning_rate=1.0, schedule="plateau", plateau_evaluations=1, warmup_epochs=0
    )
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = schedules.build_schedule(settings, BATCH_SIZE, STEPS_PER_EPOCH, history)(step)
        tf.compat.v1.get_default_graph().finalize()
        before = session.run(rate, {step: 30})
        history.known_at = lambda step: [(10, 0.5)]
        assert session.run(rate, {step: 30}) > before


NAN = math.nan


@pytest.mark.parametrize(
    "error_rates, reductions",
    [
        ([], 0),
        ([0.9, 0.8, 0.7, 0.6], 0),
        ([0.9, 0.9], 0),  # one without a new lowest
        ([0.9, 0.9, 0.9], 1),
        ([0.9, 0.95, 0.8, 0.85], 0),  # a new lowest restarts the count
        ([0.9, 0.95, 0.8, 0.85, 0.8], 1),
        ([0.9, 0.9, 0.9, 0.9], 1),
        ([0.9, 0.9, 0.9, 0.9, 0.9], 2),  # a reduction restarts the count
        ([0.9, NAN, NAN], 1),
        ([NAN, NAN, 0.9], 1),
        ([math.inf, 0.9, math.inf], 0),
    ],
)
def test_the_rate_is_reduced_after_two_evaluations_without_a_new_lowest(error_rates, reductions):
    assert (
        schedules.count_reductions([(step + 1, rate) for step, rate in enumerate(error_rates)], 2, 0)
        == reductions
    )


def test_evaluations_during_the_warmup_only_set_the_lowest():
    pairs = [(10, 0.5), (20, 0.9), (30, 0.8), (40, 0.6), (50, 0.6)]
    assert schedules.count_reductions(pairs, 2, 0) == 2
    assert schedules.count_reductions(pairs, 2, 20) == 1
    assert schedules.count_reductions(pairs, 2, 30) == 1  # 40 and 50 are not below 0.5
    assert schedules.count_reductions(pairs, 2, 40) == 0
