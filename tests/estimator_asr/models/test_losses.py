"""Losses against enumeration over all paths, and against the formula."""

import itertools

import graph_variables
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.models import losses

BLANK = 2  # tokens 0 and 1


def collapse(path):
    return [token for token, _ in itertools.groupby(path) if token != BLANK]


def enumerate_ctc(logits, labels):
    """Returns the negative log of the total probability of all paths that spell the labels."""
    log_probs = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        if collapse(path) == list(labels):
            total += np.exp(sum(log_probs[i, token] for i, token in enumerate(path)))
    return -np.log(total)


def ctc(logits, num_frames, token_ids, num_tokens):
    """Returns losses and their gradient with respect to the logits."""

    def build():
        inputs = tf.constant(logits, tf.float32)
        labels = tf.constant(token_ids, tf.int32), tf.constant(num_tokens)
        loss = losses.ctc_loss(inputs, tf.constant(num_frames), *labels)
        return loss, tf.gradients(loss, inputs)[0]

    return graph_variables.run(build)


@pytest.mark.parametrize("labels", [[], [0], [1], [0, 1], [1, 0], [0, 0], [0, 1, 0]])
def test_ctc_loss_is_the_sum_over_all_paths(labels):
    logits = np.random.default_rng(1).normal(size=[1, 3, 3])
    loss, _ = ctc(logits, [3], [[*labels, 0]], [len(labels)])
    assert loss[0] == pytest.approx(enumerate_ctc(logits[0], labels), rel=1e-5)


def test_ctc_loss_ignores_padding_of_frames_and_labels():
    logits = np.random.default_rng(1).normal(size=[2, 3, 3])
    loss, gradient = ctc(logits, [2, 3], [[1, 0], [1, 0]], [1, 2])
    assert loss[0] == pytest.approx(enumerate_ctc(logits[0, :2], [1]), rel=1e-5)
    assert loss[1] == pytest.approx(enumerate_ctc(logits[1], [1, 0]), rel=1e-5)
    assert np.all(gradient[0, 2] == 0) and np.any(gradient[1, 2] != 0)


@pytest.mark.parametrize(
    ("num_frames", "labels", "num_tokens"),
    [
        (1, [0, 1], 2),  # more labels than frames
        (2, [0, 0], 2),  # too few frames: a blank separates equal labels
        (0, [0, 1], 1),  # no frames
    ],
)
def test_impossible_utterance_has_loss_and_gradient_zero_and_spares_its_neighbour(
    num_frames, labels, num_tokens
):
    logits = np.random.default_rng(1).normal(size=[2, 3, 3])
    loss, gradient = ctc(logits, [num_frames, 3], [labels, [1, 0]], [num_tokens, 2])
    assert loss[0] == 0 and np.all(gradient[0] == 0)
    assert loss[1] == pytest.approx(enumerate_ctc(logits[1], [1, 0]), rel=1e-5)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("rows", [(0,), (1,), (0, 1)])
def test_nan_gradients_of_padding_and_impossible_utterances_do_not_spread(rows, monkeypatch):
    """The kernel may leave NaN at these places."""

    def leave_nan(labels, logits, num_frames, **_):
        weights = np.zeros([3, 3, 1], np.float32)
        weights[0, 2:] = weights[1:] = np.nan
        return tf.reduce_sum(logits * weights, axis=[1, 2])

    monkeypatch.setattr(losses.tf.compat.v1.nn, "ctc_loss", leave_nan)
    _, gradient = ctc(np.ones([3, 3, 3]), [2, 1, 3], [[0, 0], [0, 1], [0, 0]], [1, 2, 0])
    assert np.all(gradient[list(rows), 2] == 0) and np.all(gradient[1] == 0)
    np.testing.assert_allclose(gradient[2], np.tile([1 / 3, 1 / 3, -2 / 3], [3, 1]), rtol=1e-6)  # the blank


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 2], r"label out of range:\] \[0\] \[to\] \[2\] \[expected 0 to 1"),  # the blank, at the end
        ([2, 0], r"\[0\] \[to\] \[2\]"),
        ([0, 7], r"\[0\] \[to\] \[7\]"),
        ([-1, 0], r"\[-1\] \[to\] \[0\]"),
    ],
)
def test_a_label_that_is_not_a_token_fails_in_its_step(labels, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ctc(np.zeros([1, 5, 3]), [5], [labels], [2])


def test_ids_at_padding_are_not_checked():
    logits = np.random.default_rng(1).normal(size=[1, 3, 3])
    loss, _ = ctc(logits, [3], [[1, -1, 99]], [1])
    assert loss[0] == pytest.approx(enumerate_ctc(logits[0], [1]), rel=1e-5)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros([1, 2, 3], np.int32), "labels: got rank 3 and dtype int32, expected int32"),
        (np.zeros([1, 2], np.float32), "labels: got rank 2 and dtype float32, expected int32"),
    ],
)
def test_labels_that_are_not_a_matrix_of_integers_are_refused_when_the_model_is_built(labels, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        losses.ctc_loss(tf.zeros([1, 5, 3]), tf.constant([5]), tf.constant(labels), tf.constant([2]))


def test_utterances_without_labels_have_the_loss_of_blanks_alone_and_padding_none():
    loss, gradient = ctc(np.zeros([2, 3, 3]), [2, 0], np.zeros([2, 0]), [0, 0])
    np.testing.assert_allclose(loss, [2 * np.log(3), 0], rtol=1e-6)
    np.testing.assert_allclose(gradient[0, :2], np.tile([1 / 3, 1 / 3, -2 / 3], [2, 1]), rtol=1e-6)
    assert np.all(gradient[0, 2] == 0) and np.all(gradient[1] == 0)


def test_has_alignment_counts_repeats_of_real_labels_alone():
    token_ids = [[1, 1, 2], [1, 1, 2], [1, 2, 2]]
    arguments = [3, 4, 2], token_ids, [3, 3, 2]
    possible = graph_variables.run(lambda: losses.has_alignment(*map(tf.constant, arguments)))
    assert possible.tolist() == [False, True, True]


def cross_entropy(logits, labels, weights, label_smoothing):
    arguments = np.float32(logits), np.int32(labels), np.float32(weights)
    return graph_variables.run(lambda: losses.cross_entropy(*map(tf.constant, arguments), label_smoothing))


def test_cross_entropy_is_minus_log_of_the_label_times_the_weight():
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]]])
    values = cross_entropy(logits, [[0, 2, 1]], [[1.0, 2.0, 0.0]], 0.0)
    np.testing.assert_allclose(values, [[-np.log(0.5), -2 * np.log(0.7), 0.0]], rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("padding", [np.nan, np.inf])
def test_cross_entropy_of_nan_without_weight_is_that_of_zeros(padding, smoothing):
    results = []
    for value in (0.0, padding):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            logits = tf.constant(np.float32([[[1, 2, 3], [value] * 3]]))
            loss = losses.cross_entropy(logits, tf.constant([[0, 1]]), tf.constant([[1.0, 0.0]]), smoothing)
            results.append(session.run([loss, *tf.gradients(loss, logits)]))
    assert results[0][0][0, 0] > 2 and results[0][0][0, 1] == 0 and np.all(results[0][1][0, 1] == 0)
    for wanted, got in zip(*results):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("padding", [np.nan, np.inf])
def test_ctc_loss_of_nan_at_padding_is_that_of_zeros(padding):
    logits = np.random.default_rng(1).normal(size=[2, 4, 3])
    results = []
    for value in (0.0, padding):
        logits[0, 3:] = logits[1] = value
        results.append(ctc(logits, [3, 0], [[1], [0]], [1, 0]))
    for wanted, got in zip(*results):
        assert np.isfinite(wanted).all()
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_losses_of_half_floats_are_float32_and_spare_an_empty_row(dtype):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = tf.zeros([2, 3, 4], dtype)
        labels = tf.constant([[0], [0]]), tf.constant([1, 0])
        ctc_loss = losses.ctc_loss(logits, tf.constant([1, 0]), *labels)
        weights = tf.constant([[1.0, 0, 0], [0, 0, 0]])
        entropy = losses.cross_entropy(logits, tf.zeros([2, 3], tf.int32), weights, 0.1)
        assert ctc_loss.dtype == entropy.dtype == tf.float32
        values = session.run([ctc_loss, entropy])
    np.testing.assert_allclose(values[0], [np.log(4), 0], rtol=1e-6)
    np.testing.assert_allclose(values[1], [[np.log(4), 0, 0], [0, 0, 0]], rtol=1e-6)


def test_label_smoothing_is_cross_entropy_with_the_smoothed_target():
    probabilities = np.array([0.5, 0.25, 0.25])
    target = np.array([0.9, 0.0, 0.0]) + 0.1 / 3
    values = cross_entropy(np.log([[probabilities]]) + 5.0, [[0]], [[1.0]], 0.1)
    np.testing.assert_allclose(values, [[-np.sum(target * np.log(probabilities))]], rtol=1e-5)
