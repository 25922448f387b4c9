"""N-gram models: the arrays of estimator_asr/ngrams/back_off.py, as an export has them."""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import errors

_DTYPES = {
    "keys": np.int64,
    "log_probs": np.float32,
    "next_states": np.int32,
    "unigram_log_probs": np.float32,
    "unigram_states": np.int32,
    "back_off_weights": np.float32,
    "back_off_states": np.int32,
    "end_log_probs": np.float32,
}


class BackOffArrays(NamedTuple):
    """All logarithms are natural; the token ids are those of the token list.

        log p(token | state) = log_probs[i], then next_states[i]   if keys[i] = state * num_tokens + token
                             = unigram_log_probs[token], then unigram_states[token]        if state is 0
                             = back_off_weights[state] + log p(token | back_off_states[state])  otherwise

    After order - 1 back-offs the state is 0.
    """

    order: int  # length of the longest n-grams
    keys: np.ndarray  # int64 [num_ngrams], increasing; the first is -1
    log_probs: np.ndarray  # float32 [num_ngrams]
    next_states: np.ndarray  # int32 [num_ngrams]
    unigram_log_probs: np.ndarray  # float32 [num_tokens]
    unigram_states: np.ndarray  # int32 [num_tokens]
    back_off_weights: np.ndarray  # float32 [num_states]; 0 for state 0
    back_off_states: np.ndarray  # int32 [num_states]; 0 for state 0
    end_log_probs: np.ndarray  # float32 [num_states], of </s>, with the back-off weights
    start_state: int  # after <s>


def load(path: str, num_tokens: int) -> BackOffArrays:
    """Reads the arrays of a model of num_tokens tokens.

    Raises errors.UserError if the file is damaged or of another number of tokens.
    """
    try:
        with np.load(path) as saved:
            arrays = {name: saved[name].astype(dtype, copy=False) for name, dtype in _DTYPES.items()}
            order, start_state = int(saved["order"]), int(saved["start_state"])
    except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise errors.UserError(f"{path}: is no n-gram model of an export; export the model again") from error
    got = len(arrays["unigram_log_probs"])
    if got != num_tokens:
        directory = os.path.dirname(path)
        raise errors.UserError(
            f"{path}: has {got} tokens, expected the {num_tokens} of {directory}; export the model again"
        )
    return BackOffArrays(order=order, start_state=start_state, **arrays)
