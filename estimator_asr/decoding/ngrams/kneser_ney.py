"""Counts n-grams, and estimates models with interpolated modified Kneser-Ney smoothing.

The method is described by Chen and Goodman (1999), "An empirical study of smoothing techniques for language
modeling", section 3. Pruning and special cases follow Heafield et al. (2013), "Scalable modified Kneser-Ney
language model estimation" (KenLM's lmplz): 1-grams are interpolated with the uniform distribution over all
words except <s>; pruned n-grams still count in the statistics, and their probability is added to the
back-off weights.
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.decoding.ngrams import model
from tfrecord_builder import errors

_RESERVED = (model.UNKNOWN, model.START, model.END)  # the words with the first ids, in this order
_START_ID, _END_ID = _RESERVED.index(model.START), _RESERVED.index(model.END)
# Used if a text is too small or too regular to estimate discounts from, as in lmplz --discount_fallback.
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


class Text(NamedTuple):
    """Sentences as word ids."""

    words: tuple[str, ...]  # <unk>, <s> and </s>, followed by all other words, sorted
    stream: np.ndarray  # int64 [num_words + 2 * num_sentences]; <s> and </s> enclose each sentence


class Counts(NamedTuple):
    """The distinct n-grams of one order, sorted by context and word; all fields are int64 [num_ngrams]."""

    contexts: np.ndarray  # index, in the next lower order, of the n-gram without its last word
    words: np.ndarray  # id of the n-gram's last word
    suffixes: np.ndarray  # index, in the next lower order, of the n-gram without its first word
    occurrences: np.ndarray


def encode(sentences: Iterable[Sequence[str]]) -> Text:
    """Converts sentences to word ids; raises errors.UserError if all are empty or a word is <s> or </s>."""
    ids = {word: index for index, word in enumerate(_RESERVED)}
    stream = array.array("q")
    for sentence in sentences:
        for mark in (model.START, model.END):
            if mark in sentence:
                raise errors.UserError(
                    f"text: sentence {' '.join(sentence)!r} contains the word {mark}, which is reserved to "
                    "mark where sentences begin and end; remove it"
                )
        stream.append(_START_ID)
        stream.extend(ids.setdefault(word, len(ids)) for word in sentence)
        stream.append(_END_ID)
    if len(ids) == len(_RESERVED) and ids[model.UNKNOWN] not in stream:
        raise errors.UserError("text: all sentences are empty; pass text with words")
    words = (*_RESERVED, *sorted(list(ids)[len(_RESERVED) :]))
    new_ids = np.empty(len(words), np.int64)
    new_ids[[ids[word] for word in words]] = np.arange(len(words))
    return Text(words, new_ids[np.array(stream, np.int64)])


def count(text: Text, order: int) -> list[Counts]:
    """Counts the n-grams of orders 1 to `order` within sentences; <s> and </s> count as words.

    The 1-grams include <unk> even if it does not occur. Orders in which no n-grams occur are left out.
    """
    num_words = len(text.words)
    word_ids = np.arange(num_words)
    zeros = np.zeros(num_words, np.int64)
    counts = [Counts(zeros, word_ids, zeros, np.bincount(text.stream, minlength=num_words))]
    at = text.stream  # index of the n-gram that starts at each position; -1 if the sentence ends too early
    for length in range(2, order + 1):
        longer, at = _extend(text.stream, at, length, num_words)
        if not len(longer.words):
            break
        counts.append(longer)
    return counts


def _extend(stream, at, length, num_words):
    """Counts the n-grams of `length` words; `at` is as in `count`, for n-grams that are one word shorter."""
    last_words, shorter = stream[length - 1 :], at[: max(len(stream) - length + 1, 0)]
    places = np.flatnonzero((shorter >= 0) & (last_words != _START_ID))
    keys = shorter[places] * num_words + last_words[places]
    distinct, first, ids, occurrences = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    longer_at = np.full(len(stream), -1, np.int64)
    longer_at[places] = ids
    suffixes = at[places[first] + 1]
    return Counts(distinct // num_words, distinct % num_words, suffixes, occurrences), longer_at


class Estimate(NamedTuple):
    """An estimated model, with statistics for each order."""

    model: model.NgramModel
    num_ngrams: tuple[int, ...]  # number of n-grams before pruning
    discounts: tuple[tuple[float, float, float], ...]  # subtracted from counts of 1, 2, and 3 or more
    has_fallback: tuple[bool, ...]  # True if the discounts are FALLBACK_DISCOUNTS


def estimate(text: Text, order: int, prune: Sequence[int] = ()) -> Estimate:
    """Estimates a model.

    Args:
        text: the sentences.
        order: length of the longest n-grams.
        prune: one threshold per order; n-grams that occur no more often than that are left out. The first
            threshold is 0, and thresholds do not decrease. The last threshold also applies to all higher
            orders. If `prune` is empty, nothing is pruned.
    """
    counts = count(text, order)
    thresholds = [*prune, *[prune[-1] if prune else 0] * order]
    is_kept = [ngrams.occurrences > limit for ngrams, limit in zip(counts, thresholds)]
    is_kept[0][:] = True  # keeps <unk> even if it does not occur
    adjusted = _adjust(counts)
    estimated = [find_discounts(numbers) for numbers in adjusted]
    discounts = [values or FALLBACK_DISCOUNTS for values in estimated]
    unpruned = zip(_interpolate(counts, adjusted, is_kept, discounts), is_kept)
    columns = ([array[keeps] for array in ngrams] for ngrams, keeps in unpruned if np.any(keeps))
    return Estimate(
        model.NgramModel(text.words, tuple(model.Ngrams(*arrays) for arrays in columns)),
        tuple(len(ngrams.words) for ngrams in counts),
        tuple(discounts),
        tuple(values is None for values in estimated),
    )


def find_discounts(counts: np.ndarray) -> Optional[tuple[float, float, float]]:
    """Returns the discounts for counts of 1, 2, and 3 or more (Chen and Goodman, equation 17).

    Returns None if one of the counts 1, 2 and 3 does not occur, or if a discount is not positive or exceeds
    the count to which it applies. `counts` are adjusted counts, int64 [num_ngrams].
    """
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if not min(n1, n2, n3):
        return None
    y = n1 / (n1 + 2 * n2)
    discounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return discounts if all(0 < value <= count for count, value in enumerate(discounts, start=1)) else None


def _adjust(counts) -> list[np.ndarray]:
    """Returns adjusted counts: how many distinct words precede an n-gram; in the highest order, its count.

    No word precedes <s>, so the counts of n-grams that start with <s> are not adjusted.
    """
    adjusted = []
    starts = counts[0].words == _START_ID
    for lower, higher in zip(counts, [*counts[1:], None]):
        if lower is not counts[0]:
            starts = starts[lower.contexts]
        numbers = lower.occurrences
        if higher is not None:
            numbers = np.where(starts, numbers, np.bincount(higher.suffixes, minlength=len(numbers)))
        adjusted.append(numbers)
    adjusted[0] = np.where(counts[0].words == _START_ID, 0, adjusted[0])
    return adjusted


def _interpolate(counts, adjusted, is_kept, discounts) -> list[model.Ngrams]:
    """Returns the n-grams of each order, before pruning, with log probabilities and back-off weights."""
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
    orders[0].log_probs[_START_ID] = model.ZERO_LOG10 * np.log(10)
    return orders
