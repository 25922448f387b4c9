"""Forced alignment: the best CTC path through the labels (Viterbi), in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np


class Span(NamedTuple):
    """First and last frame of a label."""

    first: int
    last: int


def align(log_probs: np.ndarray, labels: Sequence[int], blank_id: int) -> Optional[list[Span]]:
    """Finds the most probable path of the labels; states as in Graves et al. (2006), section 4.1.

    Args:
        log_probs: float32 [num_frames, num_classes], log probabilities of each frame.
        labels: ids of the reference, without blanks.
        blank_id: class of the blank.

    Returns:
        One Span per label; None if the labels, plus a blank for each repeated label, need more frames.
    """
    states = np.full(2 * len(labels) + 1, blank_id)  # blank, label, blank, ..., label, blank
    states[1::2] = labels
    may_skip = np.zeros(len(states), bool)  # from a label to a different one without a blank
    may_skip[3::2] = states[3::2] != states[1:-2:2]
    scores, steps = _search(np.asarray(log_probs)[:, states], may_skip)
    last = len(states) - 1
    if len(labels) and len(log_probs) and scores[last - 1] > scores[last]:
        last -= 1
    if not np.isfinite(scores[last]):
        return None
    path = _trace_back(steps, last)
    frames = [np.flatnonzero(path == state) for state in range(1, len(states), 2)]
    return [Span(int(each[0]), int(each[-1])) for each in frames]


def _search(emissions, may_skip):
    """Returns the best score of each state after the last frame, and the states moved in each frame."""
    scores = np.full(len(may_skip), -np.inf)
    scores[0] = 0.0  # a blank before the first frame
    steps = np.zeros(emissions.shape, np.int8)
    for frame, emission in enumerate(emissions):
        padded = np.concatenate([[-np.inf, -np.inf], scores])
        choices = np.stack([scores, padded[1:-1], np.where(may_skip, padded[:-2], -np.inf)])
        steps[frame] = np.argmax(choices, axis=0)
        scores = np.max(choices, axis=0) + emission
    return scores, steps


def _trace_back(steps, state):
    path = np.empty(len(steps), int)
    for frame in range(len(steps) - 1, -1, -1):
        path[frame] = state
        state -= steps[frame][state]
    return path
