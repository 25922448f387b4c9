"""Which frame says which label: the best path of CTC through a reference, in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np


class Span(NamedTuple):
    """Where a label is said: frames first to last, both its own."""

    first: int
    last: int


def align(log_probs: np.ndarray, labels: Sequence[int], blank_id: int) -> Optional[list[Span]]:
    """Finds the likeliest way to say the labels (Viterbi; states as in Graves et al., 2006, section 4.1).

    Args:
        log_probs: float32 [num_frames, num_classes], log of the probabilities of each frame.
        labels: ids of the reference, none of them the blank.
        blank_id: class of the blank.

    Returns:
        One Span a label, in order; None if the labels do not fit into the frames (equal neighbours need a
        blank between them).
    """
    states = np.full(2 * len(labels) + 1, blank_id)  # blank, label, blank, ..., label, blank
    states[1::2] = labels
    scores, steps = _search(np.asarray(log_probs)[:, states], _may_skip(states))
    last = len(states) - 1
    if len(labels) and len(log_probs) and scores[last - 1] > scores[last]:
        last -= 1
    if not np.isfinite(scores[last]):
        return None
    path = _walk_back(steps, last)
    places = [np.flatnonzero(path == state) for state in range(1, len(states), 2)]
    return [Span(int(frames[0]), int(frames[-1])) for frames in places]


def _may_skip(states: np.ndarray) -> np.ndarray:
    """bool [num_states]: a label may follow another label without the blank between, but not itself."""
    skips = np.zeros(len(states), bool)
    skips[3::2] = states[3::2] != states[1:-2:2]
    return skips


def _search(emissions, may_skip):
    """Best score of each state at the last frame, and by how many states each frame moved to get there."""
    scores = np.full(len(may_skip), -np.inf)
    scores[0] = 0.0  # before the first frame, in a blank of its own
    steps = np.zeros(emissions.shape, np.int8)
    for frame, emission in enumerate(emissions):
        padded = np.concatenate([[-np.inf, -np.inf], scores])
        choices = np.stack([scores, padded[1:-1], np.where(may_skip, padded[:-2], -np.inf)])
        steps[frame] = np.argmax(choices, axis=0)
        scores = np.max(choices, axis=0) + emission
    return scores, steps


def _walk_back(steps, state):
    path = np.empty(len(steps), int)
    for frame in range(len(steps) - 1, -1, -1):
        path[frame] = state
        state -= steps[frame][state]
    return path
