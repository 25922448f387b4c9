"""N-gram models of an export, and the scorer that adds their probabilities to those of a search.

Equals estimator_asr/ngrams/back_off.py and models/decoding/scorers.py. A scorer has three methods:

    start()                      the state of the empty prefix, int
    extend(states, token_ids)    scores float32 [..., width, tokens] of tokens int [..., tokens] after states
                                 int [..., width], and the states after them
    finish(states)               what the end of the utterance adds, float32 of the shape of the states
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class BackOffArrays(NamedTuple):
    """All logarithms are natural; the token ids are those of the token list.

        log p(token | state) = log_probs[i], then next_states[i]   if keys[i] = state * num_tokens + token
                             = unigram_log_probs[token], then unigram_states[token]        if state is 0
                             = back_off_weights[state] + log p(token | back_off_states[state])  otherwise

    After order - 1 back-offs the state is 0.
    """

    order: np.ndarray  # int [], length of the longest n-grams
    keys: np.ndarray  # int64 [num_ngrams], increasing; the first is -1
    log_probs: np.ndarray  # float32 [num_ngrams]
    next_states: np.ndarray  # int32 [num_ngrams]
    unigram_log_probs: np.ndarray  # float32 [num_tokens]
    unigram_states: np.ndarray  # int32 [num_tokens]
    back_off_weights: np.ndarray  # float32 [num_states]; 0 for state 0
    back_off_states: np.ndarray  # int32 [num_states]; 0 for state 0
    end_log_probs: np.ndarray  # float32 [num_states], of </s>, with the back-off weights
    start_state: np.ndarray  # int32 [], after <s>


def load(path: str) -> BackOffArrays:
    """Reads the arrays of a file."""
    with np.load(path) as saved:
        return BackOffArrays(*(saved[name] for name in BackOffArrays._fields))


class NgramScorer:
    """Adds weight * log p(token | state) of a back-off n-gram model.

    A state is the longest context that the model knows of what a prefix ends with.
    """

    def __init__(self, arrays: BackOffArrays, weight: float):
        self.context_length = int(arrays.order) - 1  # tokens before one that its score depends on, at most
        self._arrays, self._weight = arrays, np.float32(weight)
        self._num_tokens = len(arrays.unigram_log_probs)
        # The row of a 1-gram is its token; the n-grams of the keys come after them.
        self._log_probs = np.concatenate([arrays.unigram_log_probs, arrays.log_probs])
        self._next_states = np.concatenate([arrays.unigram_states, arrays.next_states])

    def start(self) -> int:
        """Returns the state after <s>."""
        return int(self._arrays.start_state)

    def extend(self, states: np.ndarray, token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns weighted log probabilities; the longest context that has the token counts."""
        shape = (*states.shape, token_ids.shape[-1])
        tokens = np.broadcast_to(token_ids[..., None, :], shape).reshape(-1)
        # Left are the candidates without an n-gram so far; weights are sums of their back-off weights.
        left, contexts = np.arange(tokens.size), np.repeat(states.reshape(-1), shape[-1])
        rows, totals, weights = tokens.astype(np.int64), *np.zeros([2, tokens.size], np.float32)
        for _ in range(self.context_length):
            places, exists = self._look_up(contexts, tokens[left])
            rows[left[exists]] = places[exists] + self._num_tokens
            totals[left[exists]] = weights[exists]
            left, contexts = left[~exists], contexts[~exists]
            weights = weights[~exists] + self._arrays.back_off_weights[contexts]
            contexts = self._arrays.back_off_states[contexts]
        totals[left] = weights
        scores = self._weight * (totals + self._log_probs[rows])
        return scores.reshape(shape), self._next_states[rows].reshape(shape)

    def finish(self, states: np.ndarray) -> np.ndarray:
        """Returns the weighted log probability of </s>."""
        return self._weight * self._arrays.end_log_probs[states]

    def _look_up(self, contexts, tokens) -> tuple[np.ndarray, np.ndarray]:
        """Returns the place of each n-gram among the keys, and whether it is there."""
        keys = self._arrays.keys
        wanted = contexts.astype(np.int64) * self._num_tokens + tokens
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return places, keys[places] == wanted
