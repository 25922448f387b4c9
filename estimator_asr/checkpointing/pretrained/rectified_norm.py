"""Batch norm of a Keras model, before or after its ReLU, translated to ours, which comes before the ReLU.

Before the ReLU (ASRT's 251bn) both are equal; the bias of the convolution moves into the mean. After the ReLU
(DeepSpeechRecognition's cnn_ctc) two things are needed. Its scale and shift are folded into the next layer:
exact except at the borders, whose padding is not normalised, and where a channel of negative scale is pooled.
And our batch norm must return the values of the convolution, also when it uses batch statistics: its mean and
standard deviation are those of the normal distribution whose ReLU has the mean and variance in the file.

Epsilon is 0.001 in Keras and here.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.models import normalisation

_NEVER_POSITIVE = -4.0  # mean of a channel that is never positive, in standard deviations
_MEANS = np.linspace(_NEVER_POSITIVE, 20.0, 2401)  # of normal distributions with standard deviation 1


class Affine(NamedTuple):
    """An affine map of each channel: inputs * gain + offset."""

    gain: np.ndarray
    offset: np.ndarray


def translate(
    norm: dict[str, np.ndarray], bias: np.ndarray
) -> tuple[dict[str, np.ndarray], Optional[Affine]]:
    """Translates a batch norm of Keras.

    Args:
        norm: moving_mean and moving_variance, float32 [channels]; gamma and beta unless disabled.
        bias: float32 [channels], of the convolution before it.

    Returns:
        scale, shift, moving_mean and moving_variance; and the map to fold into the next layer, None before
        the ReLU. After the ReLU no mean is negative.
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
    """Returns mean and standard deviation of normal distributions whose ReLU has these moments.

    For mean t and standard deviation 1, the ReLU has the mean t P(t) + p(t) and the mean square
    (t^2 + 1) P(t) + t p(t), with p and P the density and distribution function of the standard normal.

    Args:
        mean, variance: float32 [channels], at least 0.

    Returns:
        Two float64 [channels].
    """
    density = np.exp(-0.5 * _MEANS**2) / math.sqrt(2 * math.pi)
    distribution = 0.5 * (1.0 + np.array([math.erf(t / math.sqrt(2)) for t in _MEANS]))
    first = _MEANS * distribution + density
    second = (_MEANS**2 + 1.0) * distribution + _MEANS * density
    mean = np.asarray(mean, np.float64)
    square = np.asarray(variance, np.float64) + mean**2
    is_alive = mean > 0
    # mean^2 / mean square increases with t from 0 to 1, for any standard deviation.
    ratio = np.divide(mean**2, square, out=np.zeros_like(mean), where=is_alive)
    t = np.interp(ratio, first**2 / second, _MEANS)
    deviation = np.where(is_alive, mean / np.interp(t, _MEANS, first), 1.0)
    return t * deviation, deviation


def fold(kernel: np.ndarray, bias: np.ndarray, affine: Optional[Affine]) -> tuple[np.ndarray, np.ndarray]:
    """Folds an affine map of a layer's inputs into its kernel and bias.

    Args:
        kernel: float32 [height, width, channels, outputs], or [bins x channels, outputs] of a dense layer.
        bias: float32 [outputs].
        affine: None, or one for other channels than the layer reads, changes nothing.
    """
    if affine is None or kernel.shape[-2] % len(affine.gain):
        return kernel, bias
    by_channel = kernel.reshape(-1, len(affine.gain), kernel.shape[-1])
    folded = (by_channel * affine.gain[:, None]).reshape(kernel.shape)
    bias = bias + np.einsum("bco,c->o", by_channel, affine.offset)
    return np.asarray(folded, np.float32), np.asarray(bias, np.float32)
