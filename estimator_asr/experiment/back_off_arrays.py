"""An n-gram model as lookup arrays, which ngrams.back_off compiles and search.scorers reads."""

from __future__ import annotations

import dataclasses
from typing import Union

import numpy as np

from tfrecord_builder.program import lazy_tensorflow as tf

Array = Union[np.ndarray, "tf.Tensor"]  # tensors in an export's graph, where all signatures share them


@dataclasses.dataclass(frozen=True)
class BackOffArrays:
    """A back-off n-gram model for a list of tokens. Logarithms are natural; token ids index the token list.

        log p(token | state) = log_probs[i], then next_states[i]   if keys[i] = state * num_tokens + token
                             = unigram_log_probs[token], then unigram_states[token]        if state is 0
                             = back_off_weights[state] + log p(token | back_off_states[state])  otherwise

    There is a key for each n-gram of order 2 and higher that does not end in </s>. The first key is -1, which
    no n-gram has, so the arrays are never empty.
    """

    order: int  # length of the longest n-grams; after order - 1 back-offs the state is 0
    keys: Array  # int64 [num_ngrams], increasing
    log_probs: Array  # float32 [num_ngrams]
    next_states: Array  # int32 [num_ngrams]
    unigram_log_probs: Array  # float32 [num_tokens]
    unigram_states: Array  # int32 [num_tokens]
    back_off_weights: Array  # float32 [num_states]; 0 for state 0
    back_off_states: Array  # int32 [num_states]; 0 for state 0
    end_log_probs: Array  # float32 [num_states], log probability of </s>, including back-off
    start_state: Array  # int32 [], state after <s>
