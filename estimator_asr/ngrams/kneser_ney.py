"""Interpolated modified Kneser-Ney estimates of an n-gram model.

Chen and Goodman (1999), "An empirical study of smoothing techniques for language modeling", section 3, with
the pruning and the special cases of Heafield et al. (2013), "Scalable modified Kneser-Ney language model
estimation" (lmplz of KenLM): 1-grams are interpolated with the uniform distribution over all words but <s>;
what is pruned still counts in the statistics, and its probability goes to the back-off weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.ngrams import counting, model

# For text that is too small or too regular for estimates (lmplz --discount_fallback).
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


class Estimate(NamedTuple):
    """A model and how it was made, for each order."""

    model: model.NgramModel
    num_ngrams: tuple[int, ...]  # before pruning
    discounts: tuple[tuple[float, float, float], ...]  # subtracted from the counts 1, 2, and 3 or more
    has_fallback: tuple[bool, ...]  # whether these are FALLBACK_DISCOUNTS


def estimate(text: counting.Text, order: int, prune: Sequence[int] = ()) -> Estimate:
    """Estimates a model.

    Args:
        text: the sentences.
        order: length of the longest n-grams.
        prune: for each order n-grams that occur at most so often are left out; not decreasing, the first 0.
            The last value applies to all higher orders; empty leaves out none.
    """
    counts = counting.count(text, order)
    thresholds = [*prune, *[prune[-1] if prune else 0] * order]
    kept = [each.occurrences > limit for each, limit in zip(counts, thresholds)]
    kept[0][:] = True  # also <unk>, which does not occur
    adjusted = _adjust(counts)
    discounts = [find_discounts(each) for each in adjusted]
    used = [each or FALLBACK_DISCOUNTS for each in discounts]
    made = zip(_interpolate(counts, adjusted, kept, used), kept)
    orders = [model.Ngrams(*(array[keeps] for array in each)) for each, keeps in made if np.any(keeps)]
    return Estimate(
        model.NgramModel(text.words, tuple(orders)),
        tuple(len(each.words) for each in counts),
        tuple(used),
        tuple(each is None for each in discounts),
    )


def find_discounts(counts: np.ndarray) -> Optional[tuple[float, float, float]]:
    """Returns the discounts of the counts 1, 2, and 3 or more (Chen and Goodman, equation 17).

    Returns None if one of these counts does not occur, or a discount is not above 0 and at most its count.
    `counts` are adjusted counts, int64 [num_ngrams].
    """
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if not min(n1, n2, n3):
        return None
    y = n1 / (n1 + 2 * n2)
    discounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return discounts if all(0 < value <= count for count, value in enumerate(discounts, start=1)) else None


def _adjust(counts) -> list[np.ndarray]:
    """Returns for each n-gram the number of distinct words before it; in the highest order its occurrences.

    Nothing is before <s>, so n-grams that start with it keep their occurrences.
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


def _interpolate(counts, adjusted, kept, discounts) -> list[model.Ngrams]:
    """Returns the n-grams of each order before pruning; word i of an n-gram of order n is in column i."""
    made, num_words = [], len(counts[0].words)
    lower_probs = np.full(1, 1 / (num_words - 1))
    for n, (each, numbers, keeps, values) in enumerate(zip(counts, adjusted, kept, discounts)):
        num_contexts = len(made[-1].words) if made else 1
        subtracted = np.where(keeps, np.array([0, *values])[np.minimum(numbers, 3)], numbers)
        totals = np.bincount(each.contexts, numbers, num_contexts)
        gammas = np.bincount(each.contexts, subtracted, num_contexts) / np.maximum(totals, 1)
        suffixes = each.suffixes if n else np.zeros(num_words, np.int64)
        probs = (numbers - subtracted) / totals[each.contexts] + gammas[each.contexts] * lower_probs[suffixes]
        if made:
            made[-1] = made[-1]._replace(back_offs=np.log(np.where(totals > 0, gammas, 1)))
        context_words = made[-1].words[each.contexts] if made else np.zeros([num_words, 0], np.int64)
        words = np.concatenate([context_words, each.words[:, None]], axis=1)
        made.append(model.Ngrams(words, np.log(probs), np.zeros(len(words))))
        lower_probs = probs
    made[0].log_probs[counting.START_ID] = model.ZERO_LOG10 * np.log(10)
    return made
