import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.training.optimizer import schedules

BATCH_SIZE, STEPS_PER_EPOCH = 64.0, 10.0


def rates(steps, history=None, steps_per_epoch=STEPS_PER_EPOCH, **settings):
    """Returns the learning rate at each step for an initial rate of 1."""
    optimizer = training_config.OptimizerConfig(learning_rate=1.0, **settings)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = schedules.build_schedule(optimizer, BATCH_SIZE, steps_per_epoch, history)(step)
        assert rate.dtype == tf.float32
        return [float(session.run(rate, {step: value})) for value in steps]


@pytest.mark.parametrize("settings, rate", [({}, 0.1), ({"learning_rate_batch_size": 256}, 0.05)])
def test_the_learning_rate_scales_with_the_batch_only_if_configured(settings, rate):
    config = training_config.OptimizerConfig(learning_rate=0.1, **settings)
    assert schedules.initial_rate(config, 128) == pytest.approx(rate)


class Evaluated:
    """An evaluation history whose lowest error rate is at step 20."""

    def known_at(self, step):
        return [(value, min(value, 20) * -0.01) for value in range(10, step + 1, 10)]


BOUNDARIES = {"decay_boundary_epochs": (3, 5), "decay_factors": (1, 0.1, 0.01)}
CLOSE = {
    "decay_boundary_epochs": (0.51, 0.53),
    "decay_factors": (1, 0.5, 0.25),
}  # both boundaries are within step 5
EXPONENTIAL = {"schedule": "exponential", "decay_rate": 0.5}
INVERSE_TIME = {"schedule": "inverse_time", "decay_epochs": 1}
PLATEAU = {"schedule": "plateau", "plateau_evaluations": 2, "plateau_factor": 0.1}


@pytest.mark.parametrize(
    "settings, warmup_epochs, expected",
    [
        # The warm-up takes 20 steps; epoch 3 ends at step 30, from which its factor applies.
        (BOUNDARIES, 2, {0: 0, 10: 0.5, 19: 0.95, 20: 1, 29: 1, 30: 0.1, 49: 0.1, 50: 0.01, 51: 0.01}),
        (CLOSE, 0, {5: 1, 6: 0.25}),
        ({}, 0, {0: 1, 1: 1, 500: 1}),
        ({}, 0.5, {0: 0, 1: 0.2, 4: 0.8, 5: 1, 6: 1}),
        ({}, 0.25, {2: 0.8, 3: 1}),  # the warm-up ends after 2.5 steps
        ({**EXPONENTIAL, "decay_epochs": 2}, 1, {5: 0.5, 10: 1, 20: 0.5**0.5, 30: 0.5, 50: 0.25}),
        ({**INVERSE_TIME, "decay_rate": 1.0}, 1, {5: 0.5, 10: 1, 20: 1 / 2, 30: 1 / 3, 50: 1 / 5}),
        ({"schedule": "inverse_sqrt"}, 4, {0: 0, 20: 0.5, 40: 1, 160: 0.5, 640: 0.25}),
        # The lowest error rate is at step 20. There is no new lowest at 30 and 40, nor at 50 and 60.
        (PLATEAU, 1, {0: 0, 5: 0.5, 10: 1, 39: 1, 40: 0.1, 59: 0.1, 60: 0.01}),
        (PLATEAU, 5, {25: 0.5, 50: 1, 60: 1, 70: 0.1}),  # evaluations until step 50 do not count
    ],
)
def test_each_schedule_has_the_rates_of_its_formula(settings, warmup_epochs, expected):
    found = rates(expected, Evaluated(), warmup_epochs=warmup_epochs, **settings)
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-6)


@pytest.mark.parametrize(
    "settings, warmup_epochs, expected",
    [
        ({}, 0.29, {28: 28 / 29, 29: 1, 30: 1}),
        ({}, 0.57, {56: 56 / 57, 57: 1, 58: 1}),
        ({}, 1.1, {109: 109 / 110, 110: 1, 111: 1}),
        # A decay starts where the warm-up ends.
        ({**EXPONENTIAL, "decay_epochs": 1}, 0.29, {29: 1, 129: 0.5}),
        ({**INVERSE_TIME, "decay_rate": 0.5}, 0.29, {29: 1, 129: 2 / 3}),
    ],
)
def test_the_warmup_ends_at_the_step_of_its_epoch(settings, warmup_epochs, expected):
    found = rates(expected, steps_per_epoch=100.0, warmup_epochs=warmup_epochs, **settings)
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-6)


@pytest.mark.parametrize(
    "epoch, steps_per_epoch, first",
    [
        (0.29, 100, 29),  # 0.29 * 100 is 28.999999999999996
        (0.57, 100, 57),  # 0.57 * 100 is 56.99999999999999
        (1.1, 100, 110),  # 1.1 * 100 is 110.00000000000001
        (1.1, 30, 33),
        (0.57, 1000, 570),
        (0.29, 7, 3),  # 2.03: step 2 is before the boundary
        (0.57, 10, 6),
        (1.1, 12.5, 14),  # 13.75; gradient accumulation makes epochs of 12.5 steps
        (2, 12.5, 25),
    ],
)
def test_a_decay_factor_applies_from_the_first_step_at_or_after_its_epoch(epoch, steps_per_epoch, first):
    settings = {"decay_boundary_epochs": (epoch,), "decay_factors": (1, 0.5), "warmup_epochs": 0}
    steps = [first - 1, first, first + 1]
    assert rates(steps, steps_per_epoch=float(steps_per_epoch), **settings) == [1, 0.5, 0.5]


def test_plateau_looks_evaluations_up_at_each_step_in_a_finalized_graph(session):
    history = Evaluated()
    settings = training_config.OptimizerConfig(schedule="plateau", plateau_evaluations=1, warmup_epochs=0)
    step = tf.compat.v1.placeholder(tf.int64, [])
    rate = schedules.build_schedule(settings, BATCH_SIZE, STEPS_PER_EPOCH, history)(step)
    session.graph.finalize()
    before = session.run(rate, {step: 30})
    history.known_at = lambda step: [(10, 0.5)]
    assert session.run(rate, {step: 30}) > before


@pytest.mark.parametrize(
    "error_rates, reductions",
    [
        ([], 0),
        ([0.9, 0.8, 0.7, 0.6], 0),
        ([0.9, 0.9], 0),  # only one evaluation without a new lowest
        ([0.9, 0.9, 0.9], 1),
        ([0.9, 0.95, 0.8, 0.85], 0),  # a new lowest restarts the count
        ([0.9, 0.95, 0.8, 0.85, 0.8], 1),
        ([0.9, 0.9, 0.9, 0.9], 1),
        ([0.9, 0.9, 0.9, 0.9, 0.9], 2),  # a reduction restarts the count
        ([0.9, math.nan, math.nan], 1),
        ([math.nan, math.nan, 0.9], 1),
        ([math.inf, 0.9, math.inf], 0),
    ],
)
def test_the_rate_is_reduced_after_two_evaluations_without_a_new_lowest(error_rates, reductions):
    assert schedules.count_reductions(enumerate(error_rates, 1), 2, 0) == reductions


def test_evaluations_during_the_warmup_only_set_the_lowest():
    pairs = [(10, 0.5), (20, 0.9), (30, 0.8), (40, 0.6), (50, 0.6)]
    reductions = {steps: schedules.count_reductions(pairs, 2, steps) for steps in (0, 20, 30, 40)}
    assert reductions == {0: 2, 20: 1, 30: 1, 40: 0}  # steps 40 and 50 do not reach the 0.5 of step 10
