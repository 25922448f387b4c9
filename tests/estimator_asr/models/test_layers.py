"""Layers against values worked out by hand or by numpy."""

import graph_variables
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.models import layers

pytestmark = pytest.mark.usefixtures("session")


def test_sequence_mask_is_one_for_real_positions(session):
    mask = session.run(layers.sequence_mask(tf.constant([0, 2]), 3))
    np.testing.assert_array_equal(mask, [[0, 0, 0], [1, 1, 0]])


def test_dropout_zeroes_a_fraction_of_the_values_and_keeps_the_mean(session):
    values = session.run(layers.dropout(tf.ones([100, 31, 101]), 0.25, seed=[1, 2]))
    assert np.mean(values == 0) == pytest.approx(0.25, abs=0.01)  # five standard deviations are 0.004
    assert set(np.unique(values)) == {np.float32(0), np.float32(4 / 3)}
    for axis in range(3):  # values are dropped independently, not by row, position or unit
        fractions = np.mean(values == 0, axis=axis)
        assert np.var(fractions) == pytest.approx(0.25 * 0.75 / values.shape[axis], rel=0.15)


def test_random_bytes_are_uniform(session):
    values = session.run(layers.random_bytes(tf.constant([123, 457]), tf.constant([1, 2])))
    assert values.shape == (123, 457) and values.dtype == np.uint8
    counts = np.bincount(values.ravel(), minlength=256)  # mean 219.6, standard deviation 14.8
    assert 219.6 - 6 * 14.8 < counts.min() and counts.max() < 219.6 + 6 * 14.8


def test_dropout_outside_training_does_nothing():
    inputs = tf.ones([2, 2])
    assert layers.dropout(inputs, 0.2, seed=None) is inputs


def test_replicate_edges(session):
    inputs = tf.constant([[[1.0], [2.0], [np.nan]], [[3.0], [4.0], [5.0]], [[np.nan], [np.inf], [6.0]]])
    mask = tf.constant([[1.0, 1, 0], [1, 1, 1], [0, 0, 0]])
    values = session.run(layers.replicate_edges(inputs, mask, 2, 2))
    expected = [[1, 1, 1, 2, 2, 2, 2], [3, 3, 3, 4, 5, 5, 5], [0] * 7]
    np.testing.assert_array_equal(values[..., 0], expected)
    causal = session.run(layers.replicate_edges(inputs, mask, 2, 0))
    np.testing.assert_array_equal(causal[..., 0], [[1, 1, 1, 2, 2], [3, 3, 3, 4, 5], [0] * 5])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_the_gradient_of_replicated_edges_counts_the_copies_and_skips_padding(session, dtype):
    inputs = tf.constant(np.full([1, 4, 1, 2], np.nan), dtype)
    inputs = tf.concat([tf.ones([1, 3, 1, 2], dtype), inputs[:, 3:]], axis=1)
    extended = layers.replicate_edges(inputs, tf.constant([[1.0, 1, 1, 0]]), 2, 2)
    assert extended.dtype == dtype
    (gradient,) = tf.gradients(extended, inputs)
    # The last position is used at its own place, at the padding's place, and in the two copies after that.
    np.testing.assert_array_equal(session.run(tf.cast(gradient, tf.float32))[0, :, 0, 0], [3, 1, 4, 0])


def test_feed_forward(session):
    outputs = layers.feed_forward(tf.constant([[[1.0]], [[-1.0]]]), 2, 0.1, seed=None)
    graph_variables.initialise(session)
    graph_variables.assign(session, "feed_forward/inner/kernel", [[1.0, -2.0]])
    graph_variables.assign(session, "feed_forward/outer/kernel", [[1.0], [10.0]])
    np.testing.assert_allclose(session.run(outputs), [[[1.0]], [[20.0]]])


def test_depthwise_conv_slides_one_filter_per_unit(session):
    inputs = tf.constant([[[0.0, 0.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0], [0.0, 0.0]]])
    outputs = layers.depthwise_conv(inputs, 3)
    graph_variables.initialise(session)
    graph_variables.assign(
        session, "depthwise_conv/kernel", np.reshape([[1, 1], [10, 1], [100, 1]], [3, 1, 2, 1])
    )
    np.testing.assert_allclose(session.run(outputs), [[[210, 2], [321, 3], [32, 2]]])


def test_depthwise_conv_of_replicated_edges_of_a_constant_is_constant(session):
    extended = layers.replicate_edges(tf.ones([1, 4, 2]), tf.ones([1, 4]), 1, 1)
    outputs = layers.depthwise_conv(extended, 3)
    graph_variables.initialise(session)
    graph_variables.assign(
        session, "depthwise_conv/kernel", np.reshape([[1, 1], [10, 2], [100, 3]], [3, 1, 2, 1])
    )
    np.testing.assert_allclose(session.run(outputs), [[[111, 6]] * 4])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_clear_padding_makes_zeros_of_whatever_is_there_and_gives_it_no_gradient(session, value):
    inputs = tf.constant(np.float32([[[[1, 2]], [[3, value]]], [[[value, value]], [[5, 6]]]]))  # [2, 2, 1, 2]
    cleared = layers.clear_padding(inputs, tf.constant([[1.0, 0.0], [0.0, 1.0]]))
    outputs, gradient = session.run([cleared, tf.gradients(tf.square(cleared), inputs)[0]])
    np.testing.assert_array_equal(outputs, [[[[1, 2]], [[0, 0]]], [[[0, 0]], [[5, 6]]]])
    np.testing.assert_array_equal(gradient, 2 * outputs)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_layer_norm_of_half_floats_takes_its_statistics_in_float32(session, dtype):
    rows = [[300.0, -300.0, 300.0, -300.0], [0.0] * 4]  # 300 squared is more than float16 holds
    outputs = layers.layer_norm(tf.cast([rows], dtype))
    graph_variables.initialise(session)
    assert outputs.dtype == dtype
    np.testing.assert_array_equal(session.run(tf.cast(outputs, tf.float32)), [[[1, -1, 1, -1], [0] * 4]])
