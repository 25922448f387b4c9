"""Batch norm of a Keras model, before or behind the rectifier, as the batch norm before it that ours has.

Before it (ASRT's 251bn) it is the same; the bias of the convolution goes into the mean. Behind it
(DeepSpeechRecognition's cnn_ctc) two things are needed. What it does to each channel is taken into the layer
that reads it: exact, but at the rim of the picture, whose padding is not normalised, and where a channel of
negative scale is pooled. And our batch norm must give back the convolution's own values, also while it uses
the batch's statistics: their mean and deviation are those of the normal distribution whose positive part has
the mean and variance that the file holds.

The epsilon is Keras' default and ours, 0.001.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.models import normalisation

_NEVER_POSITIVE = -4.0  # mean by deviation of a channel that the rectifier always cuts off
_MEANS = np.linspace(_NEVER_POSITIVE, 20.0, 2401)  # of normal distributions of deviation 1


class Affine(NamedTuple):
    """What is left to do to each channel: inputs * gain + offset."""

    gain: np.ndarray
    offset: np.ndarray


def translate(
    norm: dict[str, np.ndarray], bias: np.ndarray
) -> tuple[dict[str, np.ndarray], Optional[Affine]]:
    """Turns a batch norm of Keras into ours.

    Args:
        norm: moving_mean and moving_variance float32 [channels]; gamma, beta where it has them.
        bias: float32 [channels] of the convolution before it.

    Returns:
        scale, shift, moving_mean and moving_variance; and what the next layer has to do, if the batch norm
        stands behind the rectifier, where no mean is negative.
    """
    mean, variance = norm["moving_mean"], norm["moving_variance"]
    scale, shift = norm.get("gamma", np.ones_like(mean)), norm.get("beta", np.zeros_like(mean))
    if np.any(mean < 0) or not np.any(mean):
        return _name(scale, shift, mean - bias, variance), None
    gain = scale / np.sqrt(variance + normalisation.EPSILON)
    affine = Affine(gain, shift - mean * gain)
    before, deviation = unrectified_moments(mean, variance)
    scale = np.sqrt(deviation**2 + normalisation.EPSILON)
    return _name(scale, before, before - bias, deviation**2), affine


def _name(scale, shift, mean, variance):
    names = {"scale": scale, "shift": shift, "moving_mean": mean, "moving_variance": variance}
    return {name: np.asarray(value, np.float32) for name, value in names.items()}


def unrectified_moments(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds the normal distribution whose positive part, zero elsewhere, has this mean and variance.

    With mean t and deviation 1 the positive part has the mean t P(t) + p(t) and the mean square
    (t^2 + 1) P(t) + t p(t), p and P being density and distribution of the standard normal one.

    Args:
        mean, variance: float32 [channels], at least 0.

    Returns:
        Mean and deviation, float64 [channels].
    """
    density = np.exp(-0.5 * _MEANS**2) / math.sqrt(2 * math.pi)
    distribution = 0.5 * (1.0 + np.array([math.erf(t / math.sqrt(2)) for t in _MEANS]))
    first = _MEANS * distribution + density
    second = (_MEANS**2 + 1.0) * distribution + _MEANS * density
    mean = np.asarray(mean, np.float64)
    square = np.asarray(variance, np.float64) + mean**2
    is_alive = mean > 0
    # (mean)^2 / mean square rises with t, from 0 to 1, whatever the deviation.
    ratio = np.divide(mean**2, square, out=np.zeros_like(mean), where=is_alive)
    t = np.interp(ratio, first**2 / second, _MEANS)
    deviation = np.where(is_alive, mean / np.interp(t, _MEANS, first), 1.0)
    return t * deviation, deviation


def fold(kernel: np.ndarray, bias: np.ndarray, affine: Optional[Affine]) -> tuple[np.ndarray, np.ndarray]:
    """Takes what is left to do to a layer's inputs into the layer.

    Args:
        kernel: float32 [height, width, channels, outputs], or [bins x channels, outputs] of a dense layer.
        bias: float32 [outputs].
        affine: of the channels; None, or other channels than the layer reads: nothing is done.
    """
    if affine is None or kernel.shape[-2] % len(affine.gain):
        return kernel, bias
    by_channel = kernel.reshape(-1, len(affine.gain), kernel.shape[-1])
    folded = (by_channel * affine.gain[:, None]).reshape(kernel.shape)
    bias = bias + np.einsum("bco,c->o", by_channel, affine.offset)
    return np.asarray(folded, np.float32), np.asarray(bias, np.float32)
