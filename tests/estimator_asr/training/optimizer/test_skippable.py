from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.training.optimizer import skippable

START = np.float32([[1, 2], [3, -4], [5, 6]])
OPTIMIZERS = {
    "adam": lambda: skippable.GatedAdam(0.1, 0.9, 0.98),
    "momentum": lambda: skippable.GatedMomentum(0.1, 0.9),
}


class Training:
    """A table trained by hand; a step is applied if it is told so."""

    def __init__(self, name, is_sparse):
        table = tf.compat.v1.get_variable("table", initializer=START)
        read = tf.gather(table, [0, 2]) if is_sparse else table
        self.is_applied = tf.compat.v1.placeholder(tf.bool, [])
        optimizer = OPTIMIZERS[name]()
        optimizer.is_applied = self.is_applied
        weight = tf.cast(self.is_applied, tf.float32)  # a step that is called off has gradient zero
        self.train_op = optimizer.minimize(tf.reduce_sum(tf.square(read)) * weight)
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def step(self, is_applied):
        self.session.run(self.train_op, {self.is_applied: is_applied})

    def values(self):
        return {variable.name: self.session.run(variable) for variable in tf.compat.v1.global_variables()}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_a_step_that_is_called_off_changes_no_bit_of_weights_moments_and_powers(name, is_sparse):
    training = Training(name, is_sparse)
    for _ in range(3):
        training.step(True)
    before = training.values()
    training.step(False)
    after = training.values()
    assert len(before) == {"adam": 5, "momentum": 2}[name]
    for variable, value in before.items():
        np.testing.assert_array_equal(after[variable], value, variable)
    training.step(True)
    assert (training.values()["table:0"][0] != before["table:0"][0]).all()


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_the_first_step_can_be_called_off(name):
    training = Training(name, is_sparse=False)
    training.step(False)
    np.testing.assert_array_equal(training.values()["table:0"], START)
