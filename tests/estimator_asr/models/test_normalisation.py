"""Batch norm against values worked out by hand."""

import graph_variables
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.models import normalisation

pytestmark = pytest.mark.usefixtures("session")


def test_masked_moments_leave_padding_out(session):
    inputs = tf.constant([[[1.0], [3.0], [100.0]], [[5.0], [-100.0], [7.0]]])
    mean, variance = session.run(normalisation.masked_moments(inputs, tf.constant([[1.0, 1, 0], [1, 0, 0]])))
    np.testing.assert_allclose(mean, [3.0])  # the mean of 1, 3 and 5
    np.testing.assert_allclose(variance, [8 / 3], rtol=1e-6)


def test_masked_moments_count_the_axes_inside_a_frame(session):
    inputs = tf.constant([[[[1.0], [3.0]], [[9.0], [9.0]]]])  # [1, 2, 2, 1]
    mean, variance = session.run(normalisation.masked_moments(inputs, tf.constant([[1.0, 0.0]])))
    np.testing.assert_allclose([mean, variance], [[2.0], [1.0]])


def test_batch_norm_in_training_uses_real_positions_and_averages_them(session):
    inputs = tf.constant([[[0.0], [4.0], [100.0]]])  # mean 2, variance 4
    outputs = normalisation.batch_norm(inputs, tf.constant([[1.0, 1, 0]]), is_training=True)
    updates = [average.assign_add(change) for average, change in normalisation.pending_updates()]
    graph_variables.initialise(session)
    values, _ = session.run([outputs, updates])
    np.testing.assert_allclose(values[0, :2, 0], [-1, 1], rtol=1e-3)
    averages = {v.op.name: session.run(v) for v in tf.compat.v1.global_variables()}
    np.testing.assert_allclose(averages["batch_norm/moving_mean"], [1.8], rtol=1e-5)  # 0.1 x 0 + 0.9 x 2
    np.testing.assert_allclose(averages["batch_norm/moving_variance"], [3.7], rtol=1e-5)  # 0.1 x 1 + 0.9 x 4


def test_batch_norm_averages_over_ever_more_batches_up_to_500(session):
    normalisation.batch_norm(tf.constant([[[2.0]]]), tf.ones([1, 1]), is_training=True)
    updates = [average.assign_add(change) for average, change in normalisation.pending_updates()]
    graph_variables.initialise(session)
    fractions = []
    for count in (0, 1, 40, 10000):
        graph_variables.assign(session, "batch_norm/num_updates", float(count))
        graph_variables.assign(session, "batch_norm/moving_mean", [0.0])
        session.run(updates)
        values = {v.op.name: session.run(v) for v in tf.compat.v1.global_variables()}
        assert values["batch_norm/num_updates"] == count + 1
        fractions.append(values["batch_norm/moving_mean"][0] / 2.0)
    np.testing.assert_allclose(fractions, [9 / 10, 9 / 11, 9 / 50, 1 / 500], rtol=1e-4)


def test_batch_norm_outside_training_uses_the_averages(session):
    inputs = tf.constant([[[7.0], [3.0]]])
    outputs = normalisation.batch_norm(inputs, tf.ones([1, 2]), is_training=False)
    graph_variables.initialise(session)
    graph_variables.assign(session, "batch_norm/moving_mean", [3.0])
    graph_variables.assign(session, "batch_norm/moving_variance", [4.0])
    np.testing.assert_allclose(session.run(outputs), [[[2.0], [0.0]]], rtol=1e-3)
    assert not normalisation.pending_updates()


def test_batch_norm_averages_are_not_trained(session):
    normalisation.batch_norm(tf.ones([1, 2, 3]), tf.ones([1, 2]), is_training=True)
    trainable = {v.op.name for v in tf.compat.v1.trainable_variables()}
    assert trainable == {"batch_norm/scale", "batch_norm/shift"}


MOMENTS = {
    "one replica": normalisation.masked_moments,
    "replicas": lambda inputs, mask: normalisation.moments_over_replicas(inputs, mask, tf.zeros([2])),
}


@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_moments_of_half_floats_are_float32(session, moments, dtype):
    """In float16, 1 / 20,000 is subnormal, and the square of 300 and the sum of the values are infinite."""
    inputs = tf.cast(tf.tile([[[700.0, 0.5], [100.0, -0.5]]], [2, 10000, 1]), dtype)
    mask = tf.sequence_mask([20000, 0], 20000, tf.float32)
    mean, variance = moments(inputs, mask)
    assert mean.dtype == variance.dtype == tf.float32
    np.testing.assert_allclose(session.run([mean, variance]), [[400, 0], [90000, 0.25]], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("num_frames", [[2, 0], [0, 0]])
def test_batch_norm_of_half_floats_with_an_empty_row_is_finite(session, dtype, num_frames):
    inputs = tf.cast([[[0.0], [4.0]], [[9.0], [9.0]]], dtype)
    outputs = normalisation.batch_norm(inputs, tf.sequence_mask(num_frames, 2, tf.float32), is_training=True)
    gradient = tf.gradients(tf.square(tf.cast(outputs, tf.float32)), inputs)[0]
    graph_variables.initialise(session)
    assert outputs.dtype == gradient.dtype == dtype
    outputs, gradient = session.run([tf.cast(each, tf.float32) for each in (outputs, gradient)])
    assert np.isfinite(outputs).all() and np.isfinite(gradient).all()
    if num_frames[0]:
        np.testing.assert_allclose(outputs[0, :, 0], [-1, 1], rtol=5e-3)


@pytest.mark.parametrize("centre", [0.0, 2.5])
def test_moments_over_replicas_are_the_masked_moments_on_one_replica(session, centre):
    rng = np.random.default_rng(1)
    inputs = tf.constant(np.float32(rng.normal(3.0, 2.0, [4, 9, 5, 3])))
    mask = tf.sequence_mask([9, 1, 0, 5], 9, tf.float32)
    expected, got = session.run(
        [
            normalisation.masked_moments(inputs, mask),
            normalisation.moments_over_replicas(inputs, mask, tf.fill([3], centre)),
        ]
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_moments_over_replicas_of_nothing_but_padding_are_finite(session):
    moments = normalisation.moments_over_replicas(tf.ones([1, 2, 3]), tf.zeros([1, 2]), tf.ones([3]))
    np.testing.assert_array_equal(session.run(moments), [[1, 1, 1], [0, 0, 0]])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_moments_of_half_floats_on_two_replicas_leave_out_a_row_of_nan_without_frames(two_replicas, kind):
    found = two_replicas[kind]
    assert found["moments"] == [[[0, 1], [90000, 0.25]]] * 2  # float16 holds no 90000
    # Training minimises the sum of both replicas' losses: 2 replicas x 2 / 2 frames x distance to the mean.
    assert found["gradients"] == [[[[600, -1], [-600, 1]]], [[[0, 0], [0, 0]]]]
