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
            assert replica_sums.count_powers(slices) == power
        unknown = tf.IndexedSlices(tf.zeros([1, 2]), tf.zeros([1], tf.int32), None)
        assert replica_sums.count_powers(unknown) == 24
