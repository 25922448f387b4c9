"""Draws the features of an utterance as a spectrogram."""

from __future__ import annotations

import numpy as np

_DYNAMIC_RANGE = 14.0  # 60 dB as a natural logarithm of power; values this far below the peak are black


def draw(axes, features: np.ndarray, frame_seconds: float):
    """Draws log features, [num_frames, num_bins], on matplotlib axes, with time in seconds on the x axis.

    Returns matplotlib's AxesImage.
    """
    values = np.asarray(features, np.float32).T
    num_bins, num_frames = values.shape
    return axes.imshow(
        values,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap="magma",
        extent=(0, num_frames * frame_seconds, 0, num_bins),
        vmin=max(values.min(), values.max() - _DYNAMIC_RANGE),
    )
