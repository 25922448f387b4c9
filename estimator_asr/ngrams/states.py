"""The states of an n-gram model: the contexts that change what follows, and where each backs off to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from estimator_asr.ngrams import model


class StateGraph:
    """States of a model in which only some words occur.

    Attributes:
        back_off_weights: float64 [num_states], natural logarithms; state 0 is the empty context.
        back_off_states: int64 [num_states], the longest shorter suffix that is a state.
    """

    def __init__(self, ngram_model: model.NgramModel, words: set[int]):
        """`words` are those that may occur; <s> starts contexts and </s> ends n-grams besides."""
        self._model, self._index = ngram_model, model.Index(ngram_model)
        self._start, self._end = (ngram_model.words.index(mark) for mark in (model.START, model.END))
        self._allowed = np.isin(np.arange(len(ngram_model.words)), list(words - {self._start, self._end}))
        self._states = self._number_states()  # for each order the state of each n-gram, or -1
        weights, parents = [np.zeros(1)], [np.zeros(1, np.int64)]
        for ngrams, numbers in zip(ngram_model.orders, self._states):
            weights.append(ngrams.back_offs[numbers >= 0])
            parents.append(self.find_states(ngrams.words[numbers >= 0, 1:]))
        self.back_off_weights, self.back_off_states = np.concatenate(weights), np.concatenate(parents)

    def find_states(self, words: np.ndarray) -> np.ndarray:
        """Returns the longest suffix of each word sequence that is a state, int64 [num_sequences].

        Args:
            words: int64 [num_sequences, length].
        """
        found = np.zeros(len(words), np.int64)
        for length in range(1, min(words.shape[1], len(self._states)) + 1):
            rows = self._index.find(words[:, words.shape[1] - length :])
            numbers = np.where(rows >= 0, self._states[length - 1][rows], -1)
            found = np.where(numbers >= 0, numbers, found)
        return found

    def extensions(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields words and log probabilities of each order from 2, without n-grams that end in </s>."""
        for ngrams in self._model.orders[1:]:
            rows = self._may_be_context(ngrams.words)
            yield ngrams.words[rows], ngrams.log_probs[rows]

    def find_end_log_probs(self) -> np.ndarray:
        """Returns the log probability of </s> in each state, with back-off weights, float64 [num_states]."""
        found = np.full(len(self.back_off_weights), self._model.orders[0].log_probs[self._end])
        for numbers, longer in zip(self._states, self._model.orders[1:]):
            here = numbers[numbers >= 0]  # after those of shorter states, which they back off to
            found[here] = self.back_off_weights[here] + found[self.back_off_states[here]]
            ends = longer.words[:, -1] == self._end
            rows = self._index.find(longer.words[ends, :-1])
            is_state = numbers[rows] >= 0
            found[numbers[rows[is_state]]] = longer.log_probs[ends][is_state]
        return found

    def _number_states(self) -> list[np.ndarray]:
        numbered, count = [], 1
        for ngrams, longer in zip(self._model.orders, self._model.orders[1:]):
            extended = np.zeros(len(ngrams.words), bool)
            extended[self._index.find(longer.words[self._may_extend(longer.words), :-1])] = True
            chosen = self._may_be_context(ngrams.words) & (extended | (ngrams.back_offs != 0))
            numbers = np.where(chosen, count - 1 + np.cumsum(chosen), -1)
            numbered.append(numbers)
            count += int(np.sum(chosen))
        return numbered

    def _may_be_context(self, words) -> np.ndarray:
        rest = np.all(self._allowed[words[:, 1:]], axis=1)
        return rest & (self._allowed[words[:, 0]] | (words[:, 0] == self._start))

    def _may_extend(self, words) -> np.ndarray:
        last = self._allowed[words[:, -1]] | (words[:, -1] == self._end)
        return last & self._may_be_context(words[:, :-1])
