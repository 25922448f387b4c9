"""Forced alignment: the best CTC path through the labels (Viterbi), in numpy."""

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
    states = [blank_id, *(each for label in labels for each in (label, blank_id))]
    # The score and path of the best way to each state; before the first frame, only a blank is possible.
    best = [(0.0, [])] + [(-np.inf, [])] * (len(states) - 1)
    for frame in np.asarray(log_probs):
        before = best
        best = [_step(before, states, state, frame[states[state]]) for state in range(len(states))]
    ends = best[-2:] if len(log_probs) else best[-1:]
    score, path = ends[0] if ends[0][0] > ends[-1][0] else ends[-1]
    if not np.isfinite(score):
        return None
    frames = [[i for i, state in enumerate(path) if state == label] for label in range(1, len(states), 2)]
    return [Span(each[0], each[-1]) for each in frames]


def _step(before, states, state, log_prob):
    """Extends the best path to a state: it stays, comes from the state before, or skips a blank."""
    sources = [state, state - 1]
    if state % 2 and state > 1 and states[state] != states[state - 2]:
        sources.append(state - 2)
    score, path = max((before[source] for source in sources if source >= 0), key=lambda each: each[0])
    return score + log_prob, [*path, state]
