"""Losses against enumeration over all paths, and against the formula."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.models import losses

BLANK = 2  # tokens 0 and 1


def collapse(path):
    return [token for token, _ in itertools.groupby(path) if token != BLANK]


def enumerate_ctc(logits, labels):
    """Negative log of the sum of the probabilities of all paths that read as the labels."""
    log_probs = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        if collapse(path) == list(labels):
            total += np.exp(sum(log_probs[i, token] for i, token in enumerate(path)))
    return -np.log(total)


def ctc(logits, num_frames, token_ids, num_tokens):
    """Returns losses and their gradient by the logits."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = tf.constant(logits, tf.float32)
        loss = losses.ctc_loss(
            logits, tf.constant(num_frames), tf.constant(token_ids, tf.int32), tf.constant(num_tokens)
        )
        return session.run([loss, tf.gradients(loss, logits)[0]])


@pytest.mark.parametrize("labels", [[0], [1], [0, 1], [1, 0], [0, 0], [0, 1, 0]])
def test_ctc_loss_is_the_sum_over_all_paths(labels):
    logits = np.random.default_rng(1).normal(size=[1, 3, 3])
    loss, _ = ctc(logits, [3], [labels], [len(labels)])
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
        (2, [0, 0], 2),  # no room for the blank between equal labels
        (3, [0, 0], 0),  # no labels
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


def test_batch_without_any_label_has_loss_zero():
    loss, gradient = ctc(np.zeros([2, 3, 3]), [3, 3], np.zeros([2, 0]), [0, 0])
    assert np.all(loss == 0) and np.all(gradient == 0)


def test_has_alignment_counts_repeats_of_real_labels_alone():
    with tf.compat.v1.Session(graph=tf.Graph()) as session, session.graph.as_default():
        token_ids = tf.constant([[1, 1, 2], [1, 1, 2], [1, 2, 2]])
        possible = losses.has_alignment(tf.constant([3, 4, 2]), token_ids, tf.constant([3, 3, 2]))
        assert session.run(possible).tolist() == [False, True, True]


def cross_entropy(logits, labels, weights, label_smoothing):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits, weights = tf.constant(logits, tf.float32), tf.constant(weights, tf.float32)
        return session.run(losses.cross_entropy(logits, tf.constant(labels), weights, label_smoothing))


def test_cross_entropy_is_minus_log_of_the_label_times_the_weight():
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]]])
    values = cross_entropy(logits, [[0, 2, 1]], [[1.0, 2.0, 0.0]], 0.0)
    np.testing.assert_allclose(values, [[-np.log(0.5), -2 * np.log(0.7), 0.0]], rtol=1e-5)


def test_label_smoothing_is_cross_entropy_with_the_smoothed_target():
    probabilities = np.array([0.5, 0.25, 0.25])
    target = np.array([0.9, 0.0, 0.0]) + 0.1 / 3
    values = cross_entropy(np.log([[probabilities]]) + 5.0, [[0]], [[1.0]], 0.1)
    np.testing.assert_allclose(values, [[-np.sum(target * np.log(probabilities))]], rtol=1e-5)
