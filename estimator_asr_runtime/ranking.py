"""Ranks transcripts, and turns probabilities into confidences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import errors, model_json

_LOWEST_PROB = np.float32(1e-6)  # keeps the log odds finite


class Ranked(NamedTuple):
    """A transcript, its score, and the index of the best hypothesis with this text."""

    transcript: str
    score: np.float32
    place: int


def rank(scores: Sequence[np.float32], transcripts: Sequence[str], path: str) -> list[Ranked]:
    """Ranks transcripts by the total probability of all hypotheses that have the same text.

    `scores` are log probabilities; hypotheses without a finite score are ignored. Equivalent to
    estimator_asr.exporting.saved_model.ranking.rank. Raises errors.UserError if no hypothesis is left; the
    message contains `path`, the model's path.
    """
    groups = {}
    for place, text in enumerate(transcripts):
        if np.isfinite(scores[place]):
            groups.setdefault(text, []).append(place)
    if not groups:
        raise errors.UserError(f"{path}: no transcript has a finite score; export the model again")
    ranked = []
    for text, places in groups.items():
        terms = np.array([scores[place] for place in places], np.float32)
        total = np.max(terms) + np.log(np.sum(np.exp(terms - np.max(terms))))
        # The best hypothesis with a text represents it (the first if several are equally good).
        ranked.append(Ranked(text, total, places[int(np.argmax(terms))]))
    return sorted(ranked, key=lambda item: (-item.score, item.place))


def calibrate(probs: np.ndarray, decode: model_json.Decode) -> np.ndarray:
    """Returns confidences calibrated from probabilities, float32 of any shape (Platt scaling, 1999)."""
    probs = np.clip(probs, _LOWEST_PROB, np.float32(1) - _LOWEST_PROB)
    log_odds = np.log(probs) - np.log1p(-probs)
    scale, offset = np.float32(decode.confidence_scale), np.float32(decode.confidence_offset)
    return 1 / (1 + np.exp(-(scale * log_odds + offset)))
