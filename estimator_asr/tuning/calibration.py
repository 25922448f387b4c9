"""Fits confidences to how often they are right: Platt scaling (Platt 1999), and its calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from estimator_asr.scoring import utterances
from estimator_asr.tuning import trials

_LOWEST_PROB = 1e-6  # as saved_model/characters.py has it
_START = np.array([1.0, 0.0])  # scale and offset that change nothing
_STEPS = 30
_PRIOR = 1e-2  # strength with which scale and offset stay near 1 and 0 where there are few errors
_LOWEST_SCALE = 1e-3  # a higher probability is never less trusted
_NUM_BINS = 10


class Judged(NamedTuple):
    """Characters of hypotheses: the confidence that each had, and whether it is right."""

    confidences: np.ndarray  # float64 [num_characters]
    is_right: np.ndarray  # bool [num_characters]


def judge(transcribed: list[trials.Transcribed], has_language: bool) -> Judged:
    """Compares the characters of each transcript with its reference, by one shortest alignment.

    Without a language model, tokens are compared.
    """
    confidences, is_right = [], []
    for each in transcribed:
        items = each.outputs["characters"]
        if has_language:
            key, reference = "character", utterances.split_characters(each.transcript)
        else:
            key, reference = "pinyin", utterances.split_tokens(each.pronunciation)
        right = np.zeros(len(items), bool)
        for block in Levenshtein.opcodes(reference, [item[key] for item in items]):
            right[block.dest_start : block.dest_end] = block.tag == "equal"
        confidences += [item["confidence"] for item in items]
        is_right += right.tolist()
    return Judged(np.array(confidences, np.float64), np.array(is_right, bool))


def fit(judged: Judged) -> tuple[float, float]:
    """Returns scale and offset of the log odds of the confidences, by Newton's method with halved steps.

    They minimise the negative log likelihood of what is right, with a weak preference for 1 and 0.
    """
    log_odds = _log_odds(judged.confidences)
    inputs = np.stack([log_odds, np.ones_like(log_odds)], axis=1)
    weights = _START
    for _ in range(_STEPS):
        gradient, hessian = _derivatives(weights, inputs, judged.is_right)
        step = np.linalg.solve(hessian, gradient)
        while _loss(weights - step, inputs, judged.is_right) > _loss(weights, inputs, judged.is_right):
            step = step / 2
        weights = weights - step
    if weights[0] < _LOWEST_SCALE:
        right = np.clip(np.mean(judged.is_right), _LOWEST_PROB, 1 - _LOWEST_PROB)
        return _LOWEST_SCALE, float(_log_odds(right))
    return float(weights[0]), float(weights[1])


def _loss(weights, inputs, is_right):
    log_odds = inputs @ weights
    losses = np.logaddexp(0, np.where(is_right, -log_odds, log_odds))
    return np.sum(losses) + _PRIOR / 2 * np.sum((weights - _START) ** 2)


def _derivatives(weights, inputs, is_right):
    probs = _sigmoid(inputs @ weights)
    gradient = inputs.T @ (probs - is_right) + _PRIOR * (weights - _START)
    return gradient, (inputs * (probs * (1 - probs))[:, None]).T @ inputs + _PRIOR * np.eye(2)


def apply(judged: Judged, scale: float, offset: float) -> Judged:
    """Returns the confidences that scale and offset give."""
    return judged._replace(confidences=_sigmoid(scale * _log_odds(judged.confidences) + offset))


def join(parts: Sequence[Judged]) -> Judged:
    """Returns the characters of all parts."""
    return Judged(*map(np.concatenate, zip(*parts)))


def fit_crosswise(halves: Sequence[Judged]) -> Judged:
    """Returns the confidences of both halves, each fitted on the other: no character judged its own fit."""
    one, other = halves
    return join([apply(one, *fit(other)), apply(other, *fit(one))])


class Bins(NamedTuple):
    """Ten bins of equal width of the confidence; float64 [10], NaN where a bin is empty."""

    confidence: np.ndarray  # mean
    accuracy: np.ndarray  # fraction that is right
    counts: np.ndarray


def sort_into_bins(judged: Judged) -> Bins:
    """Returns what a reliability diagram shows (Guo et al. 2017, section 2)."""
    places = np.minimum((judged.confidences * _NUM_BINS).astype(int), _NUM_BINS - 1)
    counts, confidence, num_right = (
        np.bincount(places, weights, _NUM_BINS) for weights in (None, judged.confidences, judged.is_right)
    )
    with np.errstate(invalid="ignore"):
        return Bins(confidence / counts, num_right / counts, counts)


def calibration_error(judged: Judged) -> float:
    """Returns the expected calibration error over the bins (Guo et al. 2017, equation 3)."""
    bins = sort_into_bins(judged)
    gaps = np.nan_to_num(np.abs(bins.confidence - bins.accuracy)) * bins.counts
    return float(np.sum(gaps) / max(np.sum(bins.counts), 1))


def _sigmoid(log_odds):
    return np.exp(-np.logaddexp(0, -log_odds))


def _log_odds(confidences):
    probs = np.clip(confidences, _LOWEST_PROB, 1 - _LOWEST_PROB)
    return np.log(probs) - np.log1p(-probs)
