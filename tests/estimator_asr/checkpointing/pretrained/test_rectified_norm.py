from __future__ import annotations

import numpy as np
import pytest

from estimator_asr.checkpointing.pretrained import rectified_norm
from estimator_asr.models import normalisation


def apply_ours(values, norm):
    deviation = np.sqrt(norm["moving_variance"] + normalisation.EPSILON)
    return (values - norm["moving_mean"]) / deviation * norm["scale"] + norm["shift"]


@pytest.mark.parametrize("mean, deviation", [(0.0, 1.0), (-1.5, 2.0), (3.0, 0.5), (0.2, 0.01)])
def test_the_moments_before_the_relu_are_found_from_those_after_it(mean, deviation):
    values = mean + deviation * np.linspace(-8, 8, 400001)
    weights = np.exp(-0.5 * ((values - mean) / deviation) ** 2)
    positive, weights = np.maximum(values, 0), weights / weights.sum()
    first = (positive * weights).sum()
    second = ((positive - first) ** 2 * weights).sum()
    found = rectified_norm.unrectified_moments(np.array([first]), np.array([second]))
    np.testing.assert_allclose(np.ravel(found), [mean, deviation], rtol=1e-3, atol=1e-3 * deviation)


def test_a_channel_that_was_never_positive_stays_negative():
    mean, deviation = rectified_norm.unrectified_moments(np.float32([0]), np.float32([0]))
    assert mean == [-4.0] and deviation == [1.0]


def test_a_norm_before_the_relu_takes_the_bias_into_its_mean():
    rng = np.random.default_rng(0)
    norm = {
        "gamma": np.float32([2, 3]),
        "beta": np.float32([0.5, -1]),
        "moving_mean": np.float32([1, -2]),
        "moving_variance": np.float32([4, 0.25]),
    }
    bias = np.float32([0.3, 0.7])
    ours, affine = rectified_norm.translate(norm, bias)
    values = rng.normal(size=[5, 2])
    theirs = (values + bias - norm["moving_mean"]) / np.sqrt(norm["moving_variance"] + 1e-3)
    np.testing.assert_allclose(apply_ours(values, ours), theirs * norm["gamma"] + norm["beta"], rtol=1e-5)
    assert affine is None and ours["scale"].tolist() == [2, 3]


def test_a_norm_after_the_relu_returns_the_values_and_leaves_an_affine_map_to_the_next_layer():
    norm = {
        "gamma": np.float32([2, 1]),
        "beta": np.float32([0.5, 0]),
        "moving_mean": np.float32([1, 0.2]),
        "moving_variance": np.float32([3.999, 0.999]),
    }
    bias = np.float32([0.3, -0.7])
    ours, affine = rectified_norm.translate(norm, bias)
    values = np.random.default_rng(0).normal(size=[5, 2])
    np.testing.assert_allclose(apply_ours(values, ours), values + bias, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(affine.gain, [1, 1], rtol=1e-6)
    np.testing.assert_allclose(affine.offset, [-0.5, -0.2], rtol=1e-6)


def test_an_untrained_norm_without_gamma_and_beta_stands_before_the_relu():
    norm = {"moving_mean": np.zeros(2, np.float32), "moving_variance": np.ones(2, np.float32)}
    ours, affine = rectified_norm.translate(norm, np.zeros(2, np.float32))
    assert affine is None and ours["scale"].tolist() == [1, 1] and ours["shift"].tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(3, 3, 2, 4), (6, 4)])
def test_an_affine_map_is_folded_into_kernel_and_bias_of_the_next_layer(shape):
    rng = np.random.default_rng(1)
    kernel, bias = rng.normal(size=shape).astype(np.float32), np.float32([1, 2, 3, 4])
    affine = rectified_norm.Affine(np.float32([2, -3]), np.float32([0.5, 0.25]))
    folded, new_bias = rectified_norm.fold(kernel, bias, affine)
    inputs = rng.normal(size=[kernel.size // 8, 2])  # a patch or a row of bins, channels last

    def run(values, kernel, bias):
        return values.reshape(-1) @ kernel.reshape(-1, 4) + bias

    theirs = run(inputs * affine.gain + affine.offset, kernel, bias)
    np.testing.assert_allclose(run(inputs, folded, new_bias), theirs, rtol=1e-5)
    assert folded.shape == shape and folded.dtype == np.float32


def test_a_layer_of_other_channels_is_unchanged():
    kernel, bias = np.ones([5, 4], np.float32), np.ones(4, np.float32)
    affine = rectified_norm.Affine(np.float32([2, 2]), np.float32([1, 1]))
    assert rectified_norm.fold(kernel, bias, affine)[0] is kernel
    assert rectified_norm.fold(kernel, bias, None)[1] is bias
