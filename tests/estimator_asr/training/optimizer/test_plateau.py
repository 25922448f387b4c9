from __future__ import annotations

import math

import pytest
import tensorflow as tf

from estimator_asr.training.optimizer import plateau

NAN = math.nan


@pytest.mark.parametrize(
    "rates, falls",
    [
        ([], 0),
        ([0.9, 0.8, 0.7, 0.6], 0),
        ([0.9, 0.9], 0),  # one without a new lowest
        ([0.9, 0.9, 0.9], 1),
        ([0.9, 0.95, 0.8, 0.85], 0),  # a new lowest counts anew
        ([0.9, 0.95, 0.8, 0.85, 0.8], 1),
        ([0.9, 0.9, 0.9, 0.9], 1),
        ([0.9, 0.9, 0.9, 0.9, 0.9], 2),  # a fall counts anew
        ([0.9, NAN, NAN], 1),
        ([NAN, NAN, 0.9], 1),
        ([math.inf, 0.9, math.inf], 0),
    ],
)
def test_falls_after_two_evaluations_without_a_new_lowest(rates, falls):
    assert plateau.count_falls([(step + 1, rate) for step, rate in enumerate(rates)], 2, 0) == falls


def test_during_the_warmup_nothing_is_counted_but_the_lowest():
    rates = [(10, 0.5), (20, 0.9), (30, 0.8), (40, 0.6), (50, 0.6)]
    assert plateau.count_falls(rates, 2, 0) == 2
    assert plateau.count_falls(rates, 2, 20) == 1
    assert plateau.count_falls(rates, 2, 30) == 1  # 40 and 50 are not below 0.5
    assert plateau.count_falls(rates, 2, 40) == 0


class Known:
    """A history in which the evaluation of a step is known at that step."""

    def __init__(self, rates):
        self.rates = rates

    def known_at(self, step):
        return [pair for pair in self.rates if pair[0] <= step]


def test_each_step_looks_up_what_is_known_at_it_without_a_new_graph():
    history = Known([(10, 0.5), (20, 0.5), (30, 0.5)])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        falls = plateau.read_falls(history, 1, 0, step)
        assert falls.shape == []
        tf.compat.v1.get_default_graph().finalize()
        assert [session.run(falls, {step: value}) for value in (0, 19, 20, 29, 30, 99)] == [0, 0, 1, 1, 2, 2]
        history.rates.append((40, 0.5))
        assert session.run(falls, {step: 99}) == 3
