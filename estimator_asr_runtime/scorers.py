"""Scorers: what adds to the score of a prefix while it grows; equal estimator_asr/models/decoding/scorers.py.

A scorer has three methods. Scores are natural logarithms, multiplied by its weight.

    start() -> int                        the state of the empty prefix
    extend(states, token_ids)             int32 [..., width] and [..., tokens] to scores float32 [..., width,
                                          tokens] and states after the token, of the same shape
    finish(states) -> float32 [...]       what the end of the utterance adds
"""

from __future__ import annotations

import numpy as np

from estimator_asr_runtime import ngrams


class TokenBonus:
    """Adds the same for each token: language models favour short hypotheses."""

    def __init__(self, bonus: float):
        self._bonus = np.float32(bonus)

    def start(self) -> int:
        """Returns the only state."""
        return 0

    def extend(self, states: np.ndarray, token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bonus, whatever the token is."""
        shape = (*states.shape, token_ids.shape[-1])
        return np.full(shape, self._bonus), np.zeros(shape, np.int32)

    def finish(self, states: np.ndarray) -> np.ndarray:
        """Returns 0."""
        return np.zeros(states.shape, np.float32)


class NgramScorer:
    """Adds weight * log p(token | state) of a back-off n-gram model.

    A state is the longest context that the model knows of what a prefix ends with.
    """

    def __init__(self, arrays: ngrams.BackOffArrays, weight: float):
        self.context_length = arrays.order - 1  # tokens before one that its score depends on, at most
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
        tokens = np.broadcast_to(token_ids[..., None, :], (*states.shape, token_ids.shape[-1]))
        # Left are the candidates without an n-gram so far; weights are sums of their back-off weights.
        left, contexts = np.arange(tokens.size), np.repeat(states.reshape(-1), tokens.shape[-1])
        tokens, weights = tokens.reshape(-1), np.zeros(tokens.size, np.float32)
        rows, totals = np.empty(len(left), np.int64), np.empty(len(left), np.float32)
        for _ in range(self.context_length):
            places, exists = self._look_up(contexts, tokens[left])
            rows[left[exists]] = places[exists] + self._num_tokens
            totals[left[exists]] = weights[exists]
            left, contexts = left[~exists], contexts[~exists]
            weights = weights[~exists] + self._arrays.back_off_weights[contexts]
            contexts = self._arrays.back_off_states[contexts]
        rows[left], totals[left] = tokens[left], weights
        scores = self._weight * (totals + self._log_probs[rows])
        shape = (*states.shape, token_ids.shape[-1])
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
