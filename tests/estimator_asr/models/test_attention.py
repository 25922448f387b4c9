"""Attention and positions against values worked out by hand or by numpy."""

import graph_variables
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.models import attention as attention_lib
from estimator_asr.models import layers

pytestmark = pytest.mark.usefixtures("session")


def test_add_positions(session):
    values = session.run(attention_lib.add_positions(tf.ones([2, 3, 4])))
    waves = [[np.sin(p), np.sin(p / 100), np.cos(p), np.cos(p / 100)] for p in range(3)]
    np.testing.assert_allclose(values, [np.float32(waves) + 1] * 2, rtol=1e-5)


def rotate(vector, position):
    """The rotary embedding of one vector as a product of complex numbers."""
    half = len(vector) // 2
    rates = 10000.0 ** (-np.arange(half) / half)
    turned = (vector[:half] + 1j * vector[half:]) * np.exp(1j * position * rates)
    return np.concatenate([turned.real, turned.imag])


def test_rotate_turns_pairs_of_units_by_their_position(session):
    values = np.float32(np.random.default_rng(1).normal(size=[2, 3, 5, 6]))  # [batch, heads, length, units]
    expected = [[[rotate(vector, i) for i, vector in enumerate(head)] for head in row] for row in values]
    np.testing.assert_allclose(
        session.run(attention_lib.rotate(tf.constant(values))), expected, rtol=1e-4, atol=1e-5
    )


def test_rotate_leaves_the_last_of_an_odd_number_of_units(session):
    values = session.run(attention_lib.rotate(tf.constant([[[1.0, 0, 7], [1, 0, 7]]])))
    np.testing.assert_allclose(values, [[[1, 0, 7], [np.cos(1), np.sin(1), 7]]], rtol=1e-6)


def test_rotary_attention_does_not_change_when_a_sequence_moves(session):
    """The sequence is moved by padding before it or after it."""
    values = np.zeros([2, 7, 8])
    values[0, :4] = values[1, 3:] = np.random.default_rng(1).normal(size=[4, 8])
    mask = tf.constant([[1.0, 1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]])
    outputs = attention_lib.self_attention(tf.constant(values, tf.float32), mask, num_heads=2, rotary=True)
    graph_variables.initialise(session)
    first, second = session.run(outputs)
    np.testing.assert_allclose(first[:4], second[3:], atol=1e-6)


@pytest.mark.parametrize("rotary", [False, True])
def test_rotary_attention_alone_depends_on_the_order(session, rotary):
    values = np.float32(np.random.default_rng(1).normal(size=[4, 8]))
    inputs = tf.stack([values, values[[0, 3, 2, 1]]])
    outputs = attention_lib.self_attention(inputs, tf.ones([2, 4]), num_heads=2, rotary=rotary)
    graph_variables.initialise(session)
    first, other = session.run(outputs[:, 0])
    assert (np.abs(first - other).max() > 1e-3) == rotary


def attend(queries, keys, values, mask, num_heads):
    """Attends from queries to keys and values that are already projected, as the layers do."""
    keys, values = layers.clear_padding(keys, mask), layers.clear_padding(values, mask)
    heads = (attention_lib.split_heads(each, 1, num_heads)[0] for each in (queries, keys, values))
    return attention_lib.attend(*heads, mask)[0]


def test_causal_mask(session):
    np.testing.assert_array_equal(
        session.run(attention_lib.causal_mask(3)), [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
    )


def test_self_attention_under_a_causal_mask_does_not_see_the_future(session):
    inputs = tf.compat.v1.placeholder(tf.float32, [1, 3, 4])
    outputs = attention_lib.self_attention(inputs, attention_lib.causal_mask(3), num_heads=2)
    graph_variables.initialise(session)
    values = np.random.default_rng(1).normal(size=[1, 3, 4])
    before = session.run(outputs, {inputs: values})
    values[0, 2] += 1
    after = session.run(outputs, {inputs: values})
    np.testing.assert_allclose(before[:, :2], after[:, :2], atol=1e-6)
    assert np.abs(before[:, 2] - after[:, 2]).max() > 1e-3


def build_attention(attention, value):
    """Returns outputs and gradients of attention to rows whose last position is padding with `value`."""
    rows = np.float32(np.random.default_rng(1).normal(size=[2, 3, 4]))
    rows[:, 2] = value
    mask = tf.constant([[1.0, 1, 0], [1, 1, 0]])
    inputs = tf.constant(rows)
    with tf.compat.v1.variable_scope("model", reuse=tf.compat.v1.AUTO_REUSE):
        outputs = layers.clear_padding(attention(inputs, mask), mask)
    variables = tf.compat.v1.trainable_variables()
    return [outputs, *tf.gradients(tf.reduce_sum(outputs**2), [inputs, *variables])]


@pytest.mark.parametrize(
    "attention",
    [
        lambda inputs, mask: attend(tf.ones_like(inputs), inputs, inputs, mask, 2),
        lambda inputs, mask: attention_lib.self_attention(inputs, mask, 2),
        lambda inputs, mask: attention_lib.cross_attention(tf.ones_like(inputs), inputs, mask, 2)[0],
    ],
)
def test_nan_at_padding_has_the_attention_of_zeros(session, attention):
    fetches = [build_attention(attention, value) for value in (0.0, np.nan, np.inf)]
    graph_variables.initialise(session)
    zeros, nans, infinities = session.run(fetches)
    assert np.abs(zeros[0]).max() > 0 and np.all(zeros[1][:, 2] == 0)  # outputs, and the inputs' gradient
    for wanted, *got in zip(zeros, nans, infinities):
        for each in got:
            np.testing.assert_array_equal(each, wanted)


HALVES = [tf.float16, tf.bfloat16]


@pytest.mark.parametrize("dtype", HALVES)
def test_attention_of_half_floats_to_an_empty_row_is_finite_and_that_to_others_exact(session, dtype):
    keys = tf.zeros([2, 3, 4], dtype)
    values = tf.cast([[[1.0] * 4, [3.0] * 4, [100.0] * 4]] * 2, dtype)
    mask = tf.constant([[1.0, 1, 0], [0, 0, 0]])
    outputs = attend(tf.ones([2, 1, 4], dtype), keys, values, mask, num_heads=2)
    gradients = tf.gradients(tf.cast(outputs, tf.float32), [keys, values])
    assert outputs.dtype == dtype
    (softmax,) = (op for op in session.graph.get_operations() if op.type == "Softmax")
    assert softmax.outputs[0].dtype == tf.float32
    outputs, *gradients = (tf.cast(each, tf.float32) for each in (outputs, *gradients))
    np.testing.assert_array_equal(session.run(outputs), [[[2.0] * 4], [[0.0] * 4]])
    assert all(np.isfinite(each).all() for each in session.run(gradients))


def test_a_masked_score_is_finite_in_float16_and_weighs_nothing(session):
    """Mixed precision converts constants of a float32 graph to float16."""
    assert np.isfinite(np.float16(layers.MASKED_SCORE))
    assert np.exp(np.float32(layers.MASKED_SCORE) + np.float32(1e4)) == 0
