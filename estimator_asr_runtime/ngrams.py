"""Loads an export's n-gram models, and adds their log probabilities to the scores in a search.

Equivalent to ngrams/back_off.py and search/scorers.py in estimator_asr/decoding. A scorer has three methods:

    start()                      returns the state of the empty prefix, int
    extend(states, token_ids)    returns the score, float32, of each token id after each state, and the next
                                 states, both [..., width, tokens]; takes states, int [..., width], and
                                 token_ids, int [..., tokens]
    finish(states)               returns the scores of ending the utterance, float32, shaped like states
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class BackOffArrays(NamedTuple):
    """The arrays of a back-off model; logarithms are natural, and token ids are indices in the token list.

        log p(token | state) = log_probs[i], then next_states[i]   if keys[i] = state * num_tokens + token
                             = unigram_log_probs[token], then unigram_states[token]        if state is 0
                             = back_off_weights[state] + log p(token | back_off_states[state])  otherwise

    The next state follows "then". After at most order - 1 back-offs, the state is 0.
    """

    order: np.ndarray  # int [], length of the longest n-grams
    keys: np.ndarray  # int64 [num_ngrams], increasing; the first is -1
    log_probs: np.ndarray  # float32 [num_ngrams]
    next_states: np.ndarray  # int32 [num_ngrams]
    unigram_log_probs: np.ndarray  # float32 [num_tokens]
    unigram_states: np.ndarray  # int32 [num_tokens]
    back_off_weights: np.ndarray  # float32 [num_states]; 0 for state 0
    back_off_states: np.ndarray  # int32 [num_states]; 0 for state 0
    end_log_probs: np.ndarray  # float32 [num_states], log p(</s> | state)
    start_state: np.ndarray  # int32 [], state after <s>


def load(path: str) -> BackOffArrays:
    """Reads the arrays from an .npz file."""
    with np.load(path) as saved:
        return BackOffArrays(*(saved[name] for name in BackOffArrays._fields))


class NgramScorer:
    """A scorer that returns weight * log p(token | state) from a back-off n-gram model.

    A state stands for the longest suffix of a prefix that is a context in the model.
    """

    def __init__(self, arrays: BackOffArrays, weight: float):
        self.context_length = int(arrays.order) - 1  # a score depends on at most this many previous tokens
        self._arrays, self._weight = arrays, np.float32(weight)
        self._num_tokens = len(arrays.unigram_log_probs)
        # Both arrays contain the 1-grams, ordered by token id, and then the n-grams, ordered by key.
        self._log_probs = np.concatenate([arrays.unigram_log_probs, arrays.log_probs])
        self._next_states = np.concatenate([arrays.unigram_states, arrays.next_states])

    def start(self) -> int:
        """Returns the state after <s>."""
        return int(self._arrays.start_state)

    def extend(self, states: np.ndarray, token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns weighted log probabilities, each given the longest known context, and the next states."""
        shape = (*states.shape, token_ids.shape[-1])
        tokens = np.broadcast_to(token_ids[..., None, :], shape).reshape(-1)
        # Pending candidates have no matching n-gram yet; `weights` are the sums of their back-off weights.
        pending, contexts = np.arange(tokens.size), np.repeat(states.reshape(-1), shape[-1])
        rows, totals, weights = tokens.astype(np.int64), *np.zeros([2, tokens.size], np.float32)
        for _ in range(self.context_length):
            places, exists = self._look_up(contexts, tokens[pending])
            rows[pending[exists]] = places[exists] + self._num_tokens
            totals[pending[exists]] = weights[exists]
            pending, contexts = pending[~exists], contexts[~exists]
            weights = weights[~exists] + self._arrays.back_off_weights[contexts]
            contexts = self._arrays.back_off_states[contexts]
        totals[pending] = weights
        scores = self._weight * (totals + self._log_probs[rows])
        return scores.reshape(shape), self._next_states[rows].reshape(shape)

    def finish(self, states: np.ndarray) -> np.ndarray:
        """Returns the weighted log probability of </s>."""
        return self._weight * self._arrays.end_log_probs[states]

    def _look_up(self, contexts, tokens) -> tuple[np.ndarray, np.ndarray]:
        """Returns each n-gram's index in the keys, and a bool that is True if the n-gram exists."""
        keys = self._arrays.keys
        candidates = contexts.astype(np.int64) * self._num_tokens + tokens
        places = np.minimum(np.searchsorted(keys, candidates), len(keys) - 1)
        return places, keys[places] == candidates
