"""A back-off n-gram model in memory: its words, and the n-grams of each order as numpy arrays.

    log p(w | a b) = log_prob(a b w)                   if a b w is in the model
                     back_off(a b) + log p(w | b)      otherwise; a missing back-off weight is 0

Logarithms are natural here, but have base 10 in ARPA files.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
ZERO_LOG10 = -99.0  # log10 probability of <s>, which occurs only in contexts (SRILM, ngram-format(5))


class Ngrams(NamedTuple):
    """The n-grams of one order; all logarithms are natural."""

    words: np.ndarray  # int64 [num_ngrams, order], indices into NgramModel.words
    log_probs: np.ndarray  # float64 [num_ngrams], log probability of the last word given the others
    back_offs: np.ndarray  # float64 [num_ngrams], back-off weight of the n-gram; 0 in the highest order


class NgramModel(NamedTuple):
    """An n-gram model; the context of each n-gram is itself an n-gram of the model."""

    words: tuple[str, ...]  # including START, END and usually UNKNOWN; row i of the 1-grams has word i
    orders: tuple[Ngrams, ...]  # the 1-grams, the 2-grams and so on

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return len(self.orders)


class Index:
    """An index that finds a model's n-grams word by word, by binary search for each word but the first."""

    def __init__(self, model: NgramModel):
        self._num_words = len(model.words)
        self._keys, self._rows = [], []  # one array for each order from 2 up
        for ngrams in model.orders[1:]:
            keys = self._make_keys(self.find(ngrams.words[:, :-1]), ngrams.words[:, -1])
            self._rows.append(np.argsort(keys, kind="stable"))
            self._keys.append(keys[self._rows[-1]])

    def find(self, words: np.ndarray) -> np.ndarray:
        """Returns the row of each n-gram, int64 [num_ngrams], or -1 for n-grams that the model lacks.

        `words`, int64 [num_ngrams, order], contains indices into NgramModel.words.
        """
        indices = words[:, 0]
        for order, (keys, rows) in enumerate(zip(self._keys, self._rows), start=1):
            if order < words.shape[1]:
                indices = _find_sorted(keys, rows, self._make_keys(indices, words[:, order]))
        return indices

    def find_duplicate(self, order: int) -> int:
        """Returns the first row of an order (2 or higher) that repeats an earlier n-gram; -1 if none does."""
        keys, rows = self._keys[order - 2], self._rows[order - 2]
        repeated = np.flatnonzero(keys[1:] == keys[:-1])
        return int(rows[repeated + 1].min()) if len(repeated) else -1

    def _make_keys(self, contexts, words):
        return np.where(contexts < 0, -1, contexts * self._num_words + words)


def _find_sorted(keys, rows, wanted):
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[places] == wanted) & (wanted >= 0), rows[places], -1)
