"""CTC once more, in numpy and double precision, to hold the kernels against.

Forward and backward variables as in Graves et al. (2006), section 4.1, in the log domain. The blank is the
last class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def loss_and_gradient(logits: np.ndarray, labels: Sequence[int]) -> tuple[float, np.ndarray]:
    """Computes the loss of one utterance and its gradient by the logits.

    Args:
      logits: float [num_frames, num_classes], without padding.
      labels: ids.

    Returns:
      The loss and float64 [num_frames, num_classes]; both are 0 without labels or where no alignment exists.
    """
    log_probs = logits - np.logaddexp.reduce(logits.astype(np.float64), axis=1, keepdims=True)
    states = np.full(2 * len(labels) + 1, logits.shape[1] - 1)
    states[1::2] = labels  # a blank before, between and behind them
    if not len(labels) or not len(logits):
        return 0.0, np.zeros_like(log_probs)
    emitted = log_probs[:, states]  # [num_frames, num_states]
    forward = _forward(emitted, states)
    backward = _forward(emitted[::-1, ::-1], states[::-1])[::-1, ::-1]
    joint = forward + backward - emitted
    total = np.logaddexp.reduce(joint[0])
    if np.isneginf(total):
        return 0.0, np.zeros_like(log_probs)
    occupied = np.zeros_like(log_probs)
    for state, label in enumerate(states):
        occupied[:, label] += np.exp(joint[:, state] - total)
    return -total, np.exp(log_probs) - occupied


def _forward(emitted, states):
    """Log probability of all ways to each state at each frame; a blank between two labels may be left out."""
    can_skip = np.zeros(len(states), bool)
    can_skip[2:] = (states[2:] != states[:-2]) & (np.arange(2, len(states)) % 2 == 1)
    ways = np.full_like(emitted, -np.inf)
    ways[0, :2] = emitted[0, :2]
    for frame in range(1, len(emitted)):
        before = ways[frame - 1]
        stepped = np.concatenate([[-np.inf], before[:-1]])
        skipped = np.where(can_skip, np.concatenate([[-np.inf, -np.inf], before[:-2]]), -np.inf)
        ways[frame] = emitted[frame] + np.logaddexp(np.logaddexp(before, stepped), skipped)
    return ways
