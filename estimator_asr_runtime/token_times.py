"""Finds when each token was spoken, by the best CTC path through the tokens (Viterbi algorithm).

Equivalent to estimator_asr/decoding/search/token_times.py. The states are those of Graves et al. (2006),
section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_LOWEST = np.float32(-1e9)  # log probability of an impossible path


class TokenTimes(NamedTuple):
    """The frames in which the tokens are emitted; arrays are [num_tokens]."""

    starts: np.ndarray  # int64, first frame
    ends: np.ndarray  # int64, first frame after the token
    probs: np.ndarray  # float32, highest probability of the token in its frames


def align(log_probs: np.ndarray, ids: Sequence[int]) -> TokenTimes:
    """Aligns tokens with frames; log_probs is float32 [num_frames, num_classes], where the blank comes last.

    There must be one frame or more: at least one per token, plus one before each repeated token.
    """
    states = np.full(2 * len(ids) + 1, log_probs.shape[1] - 1)  # blank, token, blank, ..., token, blank
    states[1::2] = ids
    emissions = log_probs[:, states]
    path = _trace(*_search(emissions, states))
    is_emitted = path[:, None] == 2 * np.arange(len(ids)) + 1  # [num_frames, num_tokens]
    highest = np.max(np.where(is_emitted, emissions[:, 1::2], _LOWEST), axis=0)
    ends = len(path) - np.argmax(is_emitted[::-1], axis=0)
    return TokenTimes(np.argmax(is_emitted, axis=0), ends, np.exp(highest))


def _search(emissions: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each state's best move in each frame, int64 [num_frames, num_states], and its final score."""
    size = len(states)
    may_skip = np.zeros(size, bool)  # between two different tokens, the blank may be skipped
    may_skip[2:] = states[2:] != states[:-2]
    moves = np.empty(emissions.shape, np.int64)
    by_move = np.full([3, size], _LOWEST)
    scores = np.where(np.arange(size) > 0, _LOWEST, np.float32(0))
    for i, emission in enumerate(emissions):
        by_move[0], by_move[1, 1:] = scores, scores[:-1]
        by_move[2, 2:] = np.where(may_skip[2:], scores[:-2], _LOWEST)
        moves[i] = np.argmax(by_move, axis=0)
        scores = np.max(by_move, axis=0) + emission
    return moves, scores


def _trace(moves: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns the states of the best path, int64 [num_frames], which ends in one of the last two states."""
    state = len(scores) - 1
    if state and scores[state - 1] > scores[state]:
        state -= 1
    path = np.empty(len(moves), np.int64)
    for i in range(len(moves) - 1, -1, -1):
        path[i] = state
        state -= moves[i, state]
    return path
