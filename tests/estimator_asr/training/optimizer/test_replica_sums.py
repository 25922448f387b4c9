"""Sums in one process; test_optimization has two replicas, test_workers two processes."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.training.optimizer import replica_sums


def run(tensors):
    with tf.compat.v1.Session() as session:
        return session.run(tensors)


def test_rows_of_equal_index_are_summed():
    with tf.Graph().as_default():
        slices = tf.IndexedSlices(
            tf.constant([[1.0], [2.0], [4.0]]), tf.constant([5, 3, 5]), tf.constant([9, 1])
        )
        merged = run(replica_sums.merge_rows(slices))
    assert merged.indices.tolist() == [5, 3] and merged.values.tolist() == [[5.0], [2.0]]


def test_the_largest_padding_fits_the_table():
    with tf.Graph().as_default():
        for rows, power in ((3, 4), (16, 4), (17, 5), (524287, 19)):
            slices = tf.IndexedSlices(tf.zeros([1, 2]), tf.zeros([1], tf.int32), tf.constant([rows, 2]))
            assert replica_sums._count_powers(slices) == power
        unknown = tf.IndexedSlices(tf.zeros([1, 2]), tf.zeros([1], tf.int32), None)
        assert replica_sums._count_powers(unknown) == 24


def test_without_a_strategy_the_optimizer_applies_its_own_update():
    with tf.Graph().as_default():
        weight = tf.compat.v1.get_variable("w", initializer=1.0, use_resource=True)
        step = tf.compat.v1.train.get_or_create_global_step()
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.5)
        update = replica_sums.apply(optimizer, [(tf.constant(2.0), weight)], step)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(update)
            assert session.run([weight, step]) == [0.0, 1]
