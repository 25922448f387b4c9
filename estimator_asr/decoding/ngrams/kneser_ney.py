"""Estimates n-gram models with interpolated modified Kneser-Ney smoothing.

Chen and Goodman (1999), "An empirical study of smoothing techniques for language modeling", section 3, with
the pruning and the special cases of Heafield et al. (2013), "Scalable modified Kneser-Ney language model
estimation" (lmplz of KenLM): 1-grams are interpolated with the uniform distribution over all words but <s>;
pruned n-grams still count in the statistics, and their probability is added to the back-off weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.decoding.ngrams import counting, model

# Used if a text is too small or too regular to estimate discounts (lmplz --discount_fallback).
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


class Estimate(NamedTuple):
    """A model, and statistics of its estimation for each order."""

    model: model.NgramModel
    num_ngrams: tuple[int, ...]  # number of n-grams before pruning
    discounts: tuple[tuple[float, float, float], ...]  # subtracted from the counts 1, 2, and 3 or more
    has_fallback: tuple[bool, ...]  # True if the discounts are FALLBACK_DISCOUNTS


def estimate(text: counting.Text, order: int, prune: Sequence[int] = ()) -> Estimate:
    """Estimates a model.

    Args:
        text: the sentences.
        order: length of the longest n-grams.
        prune: thresholds by order: n-grams that occur at most this often are left out. The first is 0, none
            is below the previous one, and the last applies to all higher orders. If empty, nothing is pruned.
    """
    counts = counting.count(text, order)
    thresholds = [*prune, *[prune[-1] if prune else 0] * order]
    is_kept = [ngrams.occurrences > limit for ngrams, limit in zip(counts, thresholds)]
    is_kept[0][:] = True  # including <unk>, which may not occur
    adjusted = _adjust(counts)
    estimated = [find_discounts(numbers) for numbers in adjusted]
    discounts = [values or FALLBACK_DISCOUNTS for values in estimated]
    unpruned = zip(_interpolate(counts, adjusted, is_kept, discounts), is_kept)
    orders = [
        model.Ngrams(*(array[keeps] for array in ngrams)) for ngrams, keeps in unpruned if np.any(keeps)
    ]
    return Estimate(
        model.NgramModel(text.words, tuple(orders)),
        tuple(len(ngrams.words) for ngrams in counts),
        tuple(discounts),
        tuple(values is None for values in estimated),
    )


def find_discounts(counts: np.ndarray) -> Optional[tuple[float, float, float]]:
    """Returns the discounts for the counts 1, 2, and 3 or more (Chen and Goodman, equation 17).

    Returns None if one of these counts does not occur, or a discount is not positive or exceeds its count.
    `counts` are adjusted counts, int64 [num_ngrams].
    """
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if not min(n1, n2, n3):
        return None
    y = n1 / (n1 + 2 * n2)
    discounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return discounts if all(0 < value <= count for count, value in enumerate(discounts, start=1)) else None


def _adjust(counts) -> list[np.ndarray]:
    """Returns how many distinct words precede each n-gram; in the highest order, how often it occurs.

    No word precedes <s>, so n-grams that start with <s> keep their occurrences.
    """
    adjusted = []
    starts = counts[0].words == counting.START_ID
    for lower, higher in zip(counts, [*counts[1:], None]):
        if lower is not counts[0]:
            starts = starts[lower.contexts]
        numbers = lower.occurrences
        if higher is not None:
            numbers = np.where(starts, numbers, np.bincount(higher.suffixes, minlength=len(numbers)))
        adjusted.append(numbers)
    adjusted[0] = np.where(counts[0].words == counting.START_ID, 0, adjusted[0])
    return adjusted


def _interpolate(counts, adjusted, is_kept, discounts) -> list[model.Ngrams]:
    """Returns the n-grams of each order before pruning; column i has the word i of each n-gram."""
    orders, num_words = [], len(counts[0].words)
    lower_probs = np.full(1, 1 / (num_words - 1))
    for n, (ngrams, numbers, keeps, values) in enumerate(zip(counts, adjusted, is_kept, discounts)):
        num_contexts = len(orders[-1].words) if orders else 1
        subtracted = np.where(keeps, np.array([0, *values])[np.minimum(numbers, 3)], numbers)
        contexts = ngrams.contexts
        totals = np.bincount(contexts, numbers, num_contexts)
        gammas = np.bincount(contexts, subtracted, num_contexts) / np.maximum(totals, 1)
        suffixes = ngrams.suffixes if n else np.zeros(num_words, np.int64)
        probs = (numbers - subtracted) / totals[contexts] + gammas[contexts] * lower_probs[suffixes]
        if orders:
            orders[-1] = orders[-1]._replace(back_offs=np.log(np.where(totals > 0, gammas, 1)))
        context_words = orders[-1].words[contexts] if orders else np.zeros([num_words, 0], np.int64)
        words = np.concatenate([context_words, ngrams.words[:, None]], axis=1)
        orders.append(model.Ngrams(words, np.log(probs), np.zeros(len(words))))
        lower_probs = probs
    orders[0].log_probs[counting.START_ID] = model.ZERO_LOG10 * np.log(10)
    return orders
