"""Sums in one process; test_optimization sums over two replicas, and test_workers over two processes."""

import pytest
import tensorflow as tf

from estimator_asr.training.optimizer import replica_sums


def test_rows_of_equal_index_are_summed(session):
    values = tf.constant([[1.0], [2.0], [4.0]])
    slices = tf.IndexedSlices(values, tf.constant([5, 3, 5]), tf.constant([9, 1]))
    merged = session.run(replica_sums.merge_rows(slices))
    assert merged.indices.tolist() == [5, 3] and merged.values.tolist() == [[5.0], [2.0]]


@pytest.mark.parametrize("rows, power", [(3, 4), (16, 4), (17, 5), (524287, 19), (None, 24)])
def test_the_largest_padding_fits_the_table(graph, rows, power):
    shape = rows and tf.constant([rows, 2])
    slices = tf.IndexedSlices(tf.zeros([1, 2]), tf.zeros([1], tf.int32), shape)
    assert replica_sums.count_powers(slices) == power
