"""The reference against enumeration over all paths, and its gradient against differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from estimator_asr.diagnostics import ctc_reference

BLANK = 2


def enumerate_loss(logits, labels):
    """Minus the log of the summed probability of all paths that read as the labels."""
    probabilities = np.exp(logits) / np.sum(np.exp(logits), axis=1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(3), repeat=len(logits)):
        if [label for label, _ in itertools.groupby(path) if label != BLANK] == list(labels):
            total += np.prod(probabilities[np.arange(len(path)), path])
    return -np.log(total)


@pytest.mark.parametrize("labels", [[0], [1, 0], [0, 0], [1, 1], [0, 1, 0], [1, 1, 0], [0, 1, 0, 1, 0]])
def test_loss_is_the_sum_over_all_paths_and_the_gradient_its_slope(labels):
    logits = np.random.default_rng(3).normal(size=[5, 3])
    loss, gradient = ctc_reference.loss_and_gradient(logits, labels)
    assert loss == pytest.approx(enumerate_loss(logits, labels), rel=1e-10)
    for place in itertools.product(range(5), range(3)):
        step = np.zeros_like(logits)
        step[place] = 1e-5
        slope = (enumerate_loss(logits + step, labels) - enumerate_loss(logits - step, labels)) / 2e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-7)


def test_by_hand_one_frame_has_one_path():
    loss, gradient = ctc_reference.loss_and_gradient(np.log([[0.5, 0.25, 0.25]]), [0])
    assert loss == pytest.approx(np.log(2))
    np.testing.assert_allclose(gradient, [[-0.5, 0.25, 0.25]])


@pytest.mark.parametrize(("frames", "labels"), [(1, [0, 1]), (2, [0, 0]), (3, []), (0, [1])])
def test_what_has_no_alignment_is_zero(frames, labels):
    loss, gradient = ctc_reference.loss_and_gradient(np.ones([frames, 3]), labels)
    assert loss == 0 and gradient.shape == (frames, 3) and not gradient.any()
