"""Weights of an acoustic model of the classic Mandarin cascade."""

from __future__ import annotations

import numpy as np

CHANNELS = (32, 32, 64, 64, 128, 128, 128, 128)


def make_weights(num_convolutions, with_norm=True, num_classes=5):
    weights, inputs = {}, 1
    for i, channels in enumerate(CHANNELS[:num_convolutions]):
        weights[f"conv2d_{i}/kernel"] = np.full([3, 3, inputs, channels], i + 1, np.float32)
        weights[f"conv2d_{i}/bias"] = np.full([channels], 0.5, np.float32)
        if with_norm:
            for name, value in (("gamma", 2), ("beta", 3), ("moving_mean", -1), ("moving_variance", 4)):
                weights[f"norm_{i}/{name}"] = np.full([channels], value, np.float32)
        inputs = channels
    weights["dense_1/kernel"] = np.full([2 * inputs, 16], 0.1, np.float32)
    weights["dense_1/bias"] = np.full([16], 0.2, np.float32)
    weights["dense_2/kernel"] = np.arange(16 * num_classes, dtype=np.float32).reshape(16, num_classes)
    weights["dense_2/bias"] = np.arange(num_classes, dtype=np.float32)
    return weights
