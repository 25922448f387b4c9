"""Calibrates confidences with Platt scaling (Platt 1999), and measures their calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from estimator_asr.evaluation.tuning import trials
from estimator_asr.scoring import utterances

_LOWEST_PROB = 1e-6  # the same value as in saved_model/ranking.py
_START = np.array([1.0, 0.0])  # the scale and offset that leave confidences unchanged
_STEPS = 30
_PRIOR = 1e-2  # strength of the prior that keeps (scale, offset) near (1, 0) if there are few errors
_LOWEST_SCALE = 1e-3  # positive, so that a higher probability never becomes a lower confidence
_TENTHS = np.arange(1, 10) / 10


class Judged(NamedTuple):
    """Confidences of the characters (or tokens) in hypotheses, and whether each is right."""

    confidences: np.ndarray  # float64 [num_characters]
    is_right: np.ndarray  # bool [num_characters]


def judge(transcribed: list[trials.Transcribed], has_language: bool) -> Judged:
    """Compares each transcript's characters with its reference, using one of the shortest alignments.

    If there is no language model, tokens are compared instead.
    """
    confidences, is_right = [], []
    for utterance in transcribed:
        items = utterance.outputs["characters"]
        if has_language:
            key, reference = "character", utterances.split_characters(utterance.transcript)
        else:
            key, reference = "pinyin", utterances.split_tokens(utterance.pronunciation)
        right = np.zeros(len(items), bool)
        for block in Levenshtein.opcodes(reference, [item[key] for item in items]):
            right[block.dest_start : block.dest_end] = block.tag == "equal"
        confidences += [item["confidence"] for item in items]
        is_right += right.tolist()
    return Judged(np.array(confidences, np.float64), np.array(is_right, bool))


def fit(judged: Judged) -> tuple[float, float]:
    """Returns the scale and offset for the log odds of the confidences, found by Newton's method.

    The scale and offset minimise the negative log likelihood of `is_right`, plus a weak prior towards scale 1
    and offset 0.
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
    """Returns a copy in which the log odds of the confidences are scaled and shifted."""
    return judged._replace(confidences=_sigmoid(scale * _log_odds(judged.confidences) + offset))


def join(parts: Sequence[Judged]) -> Judged:
    """Concatenates the characters of all parts."""
    return Judged(*map(np.concatenate, zip(*parts)))


def fit_crosswise(halves: Sequence[Judged]) -> Judged:
    """Calibrates each half with the scale and offset fitted on the other half, and joins the halves."""
    first, second = halves
    return join([apply(first, *fit(second)), apply(second, *fit(first))])


class Bins(NamedTuple):
    """Statistics of each confidence bin."""

    confidence: np.ndarray  # mean confidence per bin, float64 [num_bins]; NaN if the bin is empty
    accuracy: np.ndarray  # fraction of characters that are right, float64 [num_bins]; NaN if the bin is empty
    counts: np.ndarray  # number of characters per bin, int64 [num_bins]


def sort_into_bins(judged: Judged, limits: np.ndarray = _TENTHS) -> Bins:
    """Returns the bins of a reliability diagram (Guo et al. 2017, section 2); `limits` separate the bins."""
    places = np.searchsorted(limits, judged.confidences, side="right")
    counts, confidence, num_right = (
        np.bincount(places, weights, len(limits) + 1)
        for weights in (None, judged.confidences, judged.is_right)
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
