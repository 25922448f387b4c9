from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.training.optimizer import skippable

START = np.float32([[1, 2], [3, -4], [5, 6]])
OPTIMIZERS = {
    "adam": lambda: skippable.SkippableAdam(0.1, 0.9, 0.98),
    "momentum": lambda: skippable.SkippableMomentum(0.1, 0.9),
}


class Training:
    """A table trained by hand; a step is applied or skipped as told."""

    def __init__(self, name, is_sparse):
        table = tf.compat.v1.get_variable("table", initializer=START)
        read = tf.gather(table, [0, 2]) if is_sparse else table
        self.is_applied = tf.compat.v1.placeholder(tf.bool, [])
        optimizer = OPTIMIZERS[name]()
        optimizer.is_applied = self.is_applied
        weight = tf.cast(self.is_applied, tf.float32)  # a skipped step has gradient zero
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
def test_a_skipped_step_changes_no_bit_of_weights_moments_and_beta_powers(name, is_sparse):
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
def test_the_first_step_can_be_skipped(name):
    training = Training(name, is_sparse=False)
    training.step(False)
    np.testing.assert_array_equal(training.values()["table:0"], START)


def train_adam(optimizer_class, steps, build_loss):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable("table", initializer=START)
        step = tf.compat.v1.placeholder(tf.int32, [])
        train_op = optimizer_class(0.1).minimize(build_loss(table, step))
        session.run(tf.compat.v1.global_variables_initializer())
        for index in range(steps):
            session.run(train_op, {step: index})
        names = [variable.name for variable in tf.compat.v1.global_variables()]
        return session.run(table), names


def gather_rows(rows):
    return lambda table, step: tf.reduce_sum(tf.square(tf.gather(table, tf.gather(rows, step % len(rows)))))


def test_rows_that_occur_in_every_step_are_updated_as_by_adam():
    all_rows = gather_rows([[0, 1, 2]])
    lazy, names = train_adam(skippable.SkippableAdam, 5, all_rows)
    plain, plain_names = train_adam(tf.compat.v1.train.AdamOptimizer, 5, all_rows)
    np.testing.assert_allclose(lazy, plain, rtol=1e-6)
    assert names == plain_names  # checkpoints are compatible with Adam


def test_a_row_that_does_not_occur_keeps_its_value():
    lazy, _ = train_adam(skippable.SkippableAdam, 4, gather_rows([[1, 1]]))
    np.testing.assert_array_equal(lazy[[0, 2]], START[[0, 2]])
    assert (np.abs(lazy[1]) < np.abs(START[1])).all()


def test_a_row_is_unchanged_between_its_steps_unlike_with_adam():
    every_other = gather_rows([[0], [1]])
    one_step, _ = train_adam(skippable.SkippableAdam, 1, every_other)
    two_steps, _ = train_adam(skippable.SkippableAdam, 2, every_other)
    np.testing.assert_array_equal(one_step[0], two_steps[0])
    drifted, _ = train_adam(tf.compat.v1.train.AdamOptimizer, 2, every_other)
    assert (drifted[0] < two_steps[0]).all()


def test_dense_gradients_are_applied_as_by_adam():
    def loss(table, step):
        return tf.reduce_sum(tf.square(table)) + 0.0 * tf.cast(step, tf.float32)

    lazy, _ = train_adam(skippable.SkippableAdam, 3, loss)
    plain, _ = train_adam(tf.compat.v1.train.AdamOptimizer, 3, loss)
    np.testing.assert_array_equal(lazy, plain)
