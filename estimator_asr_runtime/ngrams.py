"""N-gram models of an export, and the scorer that adds their probabilities to those of a search.

Equals estimator_asr/ngrams/back_off.py and models/decoding/scorers.py. A scorer has three methods:

    start()                      the state of the empty prefix, int
    extend(states, token_ids)    scores float32 [..., width, tokens] of tokens int [..., tokens] after states
                                 int [..., width], and the states after them
    finish(states)               what the end of the utterance adds, float32 of the shape of the states
"""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr_runtime import errors

_MOST_BYTES, _MOST_RATIO = 2_000_000_000, 1100  # of an array; zlib compresses by at most 1032
_FLOATS = ("log_probs", "weights")  # how names of arrays of floats end
_SAME_LENGTHS = (
    ("keys", "log_probs", "next_states"),
    ("unigram_log_probs", "unigram_states"),
    ("back_off_weights", "back_off_states", "end_log_probs"),
)
_ERRORS = (
    *(OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, MemoryError, OverflowError),
    *(RuntimeError, struct.error, zipfile.BadZipFile, zlib.error),  # RuntimeError: encrypted
    *(SyntaxError, tokenize.TokenError),  # of the headers of arrays
)


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


def load(path: str, num_tokens: int) -> BackOffArrays:
    """Reads the arrays of a model of num_tokens tokens.

    Raises errors.UserError if the file is damaged or of another number of tokens.
    """
    try:
        _check_sizes(path)
        with np.load(path) as saved:
            arrays = BackOffArrays(*(np.asarray(saved[name]) for name in BackOffArrays._fields))
    except _ERRORS as error:
        raise errors.UserError(f"{path}: is not a valid n-gram model; export again") from error
    problem = _find_form_problem(arrays) or _find_range_problem(arrays, num_tokens)
    if problem:
        raise errors.UserError(f"{path}: {problem}; export again")
    return arrays


def _check_sizes(path: str) -> None:
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            is_known = each.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            most = min(_MOST_BYTES, _MOST_RATIO * (each.compress_size + 1))
            if not is_known or each.file_size > most:
                raise ValueError(each.filename)


def _find_form_problem(arrays: BackOffArrays) -> Optional[str]:
    for name, array in arrays._asdict().items():
        kind, rank = (
            "float" if name.endswith(_FLOATS) else "int",
            0 if name in ("order", "start_state") else 1,
        )
        if (array.dtype.kind, array.ndim) != (kind[0], rank):
            return f"{name} is {array.dtype} of rank {array.ndim}, expected {kind} of rank {rank}"
    for names in _SAME_LENGTHS:
        lengths = [len(getattr(arrays, name)) for name in names]
        if not lengths[0] or len(set(lengths)) > 1:
            return f"length of {', '.join(names)} is {lengths}, expected equal ones from 1 on"
    return None


def _find_range_problem(arrays: BackOffArrays, num_tokens: int) -> Optional[str]:
    got, states = len(arrays.unigram_log_probs), (0, len(arrays.back_off_states) - 1)
    if got != num_tokens:
        return f"has {got} tokens, expected the {num_tokens} of the model"
    ranges = {"order": (1, 10), "keys": (-1, 1 << 53)}
    for name, array in arrays._asdict().items():
        least, most = (-np.inf, 1e6) if name.endswith(_FLOATS) else ranges.get(name, states)
        if not least <= np.min(array) <= np.max(array) <= most:
            return f"{name} is {np.min(array)} to {np.max(array)}, expected {least} to {most}"
    if arrays.keys[0] != -1 or np.any(arrays.keys[1:] <= arrays.keys[:-1]):
        return "keys do not increase, expected increasing ones from -1 on"
    return None


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
