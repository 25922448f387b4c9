from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.training.optimizer import loss_scale


class Scaling:
    def __init__(self):
        self.scale = loss_scale.LossScale()
        self.loss, self.gradient = (tf.compat.v1.placeholder(tf.bool, []) for _ in range(2))
        self.is_overflow = self.scale.is_overflow(self.loss, self.gradient)
        self.update_op = self.scale.update(self.is_overflow, self.loss & self.gradient)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def update(self, *, loss=True, gradient=True):
        """Returns whether it overflowed."""
        feeds = {self.loss: loss, self.gradient: gradient}
        return self.session.run([self.is_overflow, self.update_op], feeds)[0]

    def set(self, name, value):
        (variable,) = (v for v in tf.compat.v1.global_variables() if v.op.name == f"loss_scale/{name}")
        self.session.run(variable.assign(value))

    def values(self):
        return [self.session.run(variable) for variable in tf.compat.v1.global_variables()]


@pytest.fixture
def scaling():
    with tf.Graph().as_default():
        yield Scaling()


def test_an_overflow_halves_the_scale_and_restarts_the_count(scaling):
    assert scaling.values() == [32768, 0]
    assert not scaling.update()
    assert scaling.values() == [32768, 1]
    assert scaling.update(gradient=False)
    assert scaling.values() == [16384, 0]


def test_enough_good_updates_double_the_scale(scaling):
    scaling.set("good_updates", 1998.0)
    scaling.update()
    assert scaling.values() == [32768, 1999]
    scaling.update()
    assert scaling.values() == [65536, 0]


def test_the_scale_stays_within_float32(scaling):
    scaling.set("scale", 2.0**127)
    scaling.set("good_updates", 1999.0)
    scaling.update()
    assert scaling.values() == [2.0**127, 0]


def test_a_non_finite_loss_is_not_an_overflow_and_changes_nothing(scaling):
    scaling.update()
    assert not scaling.update(loss=False, gradient=False)
    assert scaling.values() == [32768, 1]


def test_a_scale_of_one_is_the_minimum(scaling):
    scaling.set("scale", 2.0)
    assert scaling.update(gradient=False)
    assert scaling.values() == [1, 0]
    assert not scaling.update(gradient=False)
    assert scaling.values() == [1, 0]
