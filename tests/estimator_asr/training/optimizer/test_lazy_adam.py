from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_asr.training.optimizer import lazy_adam

START = np.float32([[1, 2], [3, 4], [5, 6]])


def train(optimizer_class, steps, build_loss):
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


def test_rows_that_occur_in_every_step_move_as_with_adam():
    all_rows = gather_rows([[0, 1, 2]])
    lazy, names = train(lazy_adam.LazyAdamOptimizer, 5, all_rows)
    plain, plain_names = train(tf.compat.v1.train.AdamOptimizer, 5, all_rows)
    np.testing.assert_allclose(lazy, plain, rtol=1e-6)
    assert names == plain_names  # so that checkpoints are those of Adam


def test_a_row_that_does_not_occur_keeps_its_value():
    lazy, _ = train(lazy_adam.LazyAdamOptimizer, 4, gather_rows([[1, 1]]))
    np.testing.assert_array_equal(lazy[[0, 2]], START[[0, 2]])
    assert (lazy[1] < START[1]).all()


def test_a_row_rests_between_its_steps_where_adam_would_drift_on():
    every_other = gather_rows([[0], [1]])
    one_step, _ = train(lazy_adam.LazyAdamOptimizer, 1, every_other)
    two_steps, _ = train(lazy_adam.LazyAdamOptimizer, 2, every_other)
    np.testing.assert_array_equal(one_step[0], two_steps[0])
    drifted, _ = train(tf.compat.v1.train.AdamOptimizer, 2, every_other)
    assert (drifted[0] < two_steps[0]).all()


def test_dense_gradients_are_those_of_adam():
    def loss(table, step):
        return tf.reduce_sum(tf.square(table)) + 0.0 * tf.cast(step, tf.float32)

    lazy, _ = train(lazy_adam.LazyAdamOptimizer, 3, loss)
    plain, _ = train(tf.compat.v1.train.AdamOptimizer, 3, loss)
    np.testing.assert_array_equal(lazy, plain)
