"""The frames that a search looks at; equals estimator_asr/models/decoding/frames.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Frames(NamedTuple):
    """The searched frames, first to last."""

    probs: np.ndarray  # float32 [num_searched, num_classes]
    token_probs: np.ndarray  # float32 [num_searched, num_candidates], the most probable tokens, best first
    token_ids: np.ndarray  # int64 [num_searched, num_candidates]
    follow_token: np.ndarray  # bool [num_searched], False if frames were skipped just before
    skipped_score: np.float32  # log probability of the blanks of the skipped frames


def select(log_probs: np.ndarray, skipped_blank: float, num_candidates: int) -> Frames:
    """Returns the frames of log_probs, float32 [num_frames, num_classes], whose blank is not almost certain.

    Those whose blank, the last class, is more probable than `skipped_blank` are skipped (1: none is).
    """
    probs = np.exp(log_probs)
    is_skipped = probs[:, -1] > np.float32(skipped_blank)
    positions = np.flatnonzero(~is_skipped)
    searched = probs[positions]
    tokens = searched[:, :-1]
    token_ids = np.argsort(-tokens, axis=1, kind="stable")[:, :num_candidates]
    token_probs = np.take_along_axis(tokens, token_ids, axis=1)
    follow_token = np.diff(positions, prepend=-1) == 1
    skipped_score = np.sum(np.log(probs[is_skipped, -1]), dtype=np.float32)
    return Frames(searched, token_probs, token_ids, follow_token, skipped_score)
