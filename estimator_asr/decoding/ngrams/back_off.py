"""Compiles an n-gram model and a token list into lookup arrays for decoding, in which contexts become states.

A state is a context that affects the next token's probability: the empty context (state 0), and each n-gram
below the highest order that has a back-off weight or starts a longer n-gram.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np

from estimator_asr.decoding.ngrams import model
from estimator_asr.experiment import back_off_arrays
from tfrecord_builder import errors

# Log probability of unknown tokens if a model has no <unk>. In most models, every word is likelier than 1e-7.
UNKNOWN_LOG_PROB = -7 * np.log(10)
_NUM_EXAMPLES = 5


def describe_missing(ngram_model: model.NgramModel, tokens: Sequence[str], path: str) -> Optional[str]:
    """Returns a warning that names tokens missing from the model in `path`, or None if none are missing."""
    words = {*ngram_model.words, model.UNKNOWN}
    missing = [token for token in tokens if token not in words]
    if not missing:
        return None
    score = "the probability of <unk>" if model.UNKNOWN in ngram_model.words else "the probability 1e-7"
    missed = f"{len(missing)} of {len(tokens)} tokens ({_list(missing)})"
    return f"{path}: the n-gram model lacks {missed}; these tokens get {score}"


def compile_model(
    ngram_model: model.NgramModel, tokens: Sequence[str], path: str
) -> back_off_arrays.BackOffArrays:
    """Compiles a model for a token list, which does not contain the blank; `path` is only used in messages.

    A token that the model does not know is treated as <unk>; if the model has no <unk>, the token's log
    probability is UNKNOWN_LOG_PROB, and its next state is 0. Words that are not in the list, and n-grams that
    contain such words, are left out. Raises errors.UserError if the model knows none of the tokens.
    """
    word_ids = _find_words(ngram_model, tokens, path)
    graph = _StateGraph(ngram_model, set(word_ids.tolist()))
    has_word = word_ids >= 0
    unigrams = np.where(has_word, ngram_model.orders[0].log_probs[word_ids], UNKNOWN_LOG_PROB)
    keys, log_probs, next_states = _make_entries(graph, word_ids)
    return back_off_arrays.BackOffArrays(
        order=ngram_model.order,
        keys=keys,
        log_probs=log_probs.astype(np.float32),
        next_states=next_states.astype(np.int32),
        unigram_log_probs=unigrams.astype(np.float32),
        unigram_states=np.where(has_word, graph.find_states(word_ids[:, None]), 0).astype(np.int32),
        back_off_weights=graph.back_off_weights.astype(np.float32),
        back_off_states=graph.back_off_states.astype(np.int32),
        end_log_probs=graph.find_end_log_probs().astype(np.float32),
        start_state=np.int32(graph.find_states(np.array([[ngram_model.words.index(model.START)]]))[0]),
    )


class _StateGraph:
    """The states of a model, restricted to n-grams of `words` (which may begin with <s> and end with </s>).

    Attributes:
        back_off_weights: float64 [num_states], natural logarithms; state 0 is the empty context.
        back_off_states: int64 [num_states], the longest proper suffix of each state that is also a state.
    """

    def __init__(self, ngram_model: model.NgramModel, words: set[int]):
        self._model, self._index = ngram_model, model.Index(ngram_model)
        self._start, self._end = (ngram_model.words.index(mark) for mark in (model.START, model.END))
        self._allowed = np.isin(np.arange(len(ngram_model.words)), list(words - {self._start, self._end}))
        self._states = self._number_states()  # one array per order, -1 if an n-gram is not a state
        weights, parents = [np.zeros(1)], [np.zeros(1, np.int64)]
        for ngrams, numbers in zip(ngram_model.orders, self._states):
            weights.append(ngrams.back_offs[numbers >= 0])
            parents.append(self.find_states(ngrams.words[numbers >= 0, 1:]))
        self.back_off_weights, self.back_off_states = np.concatenate(weights), np.concatenate(parents)

    def find_states(self, words: np.ndarray) -> np.ndarray:
        """Returns, for each row, the state that is its longest suffix, int64 [num_sequences].

        `words` is int64 [num_sequences, length].
        """
        longest = np.zeros(len(words), np.int64)
        for length in range(1, min(words.shape[1], len(self._states)) + 1):
            rows = self._index.find(words[:, words.shape[1] - length :])
            numbers = np.where(rows >= 0, self._states[length - 1][rows], -1)
            longest = np.where(numbers >= 0, numbers, longest)
        return longest

    def extensions(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields, for each order from 2 up, words and log probabilities of n-grams not ending in </s>."""
        for ngrams in self._model.orders[1:]:
            rows = self._may_be_context(ngrams.words)
            yield ngrams.words[rows], ngrams.log_probs[rows]

    def find_end_log_probs(self) -> np.ndarray:
        """Returns the log probability of </s> in each state, including back-off, float64 [num_states]."""
        log_probs = np.full(len(self.back_off_weights), self._model.orders[0].log_probs[self._end])
        for numbers, longer in zip(self._states, self._model.orders[1:]):
            # Shorter states are processed first, because longer states back off to shorter ones.
            states = numbers[numbers >= 0]
            log_probs[states] = self.back_off_weights[states] + log_probs[self.back_off_states[states]]
            ends = longer.words[:, -1] == self._end
            rows = self._index.find(longer.words[ends, :-1])
            is_state = numbers[rows] >= 0
            log_probs[numbers[rows[is_state]]] = longer.log_probs[ends][is_state]
        return log_probs

    def _number_states(self) -> list[np.ndarray]:
        numbered, count = [], 1
        for ngrams, longer in zip(self._model.orders, self._model.orders[1:]):
            extended = np.zeros(len(ngrams.words), bool)
            extended[self._index.find(longer.words[self._may_extend(longer.words), :-1])] = True
            chosen = self._may_be_context(ngrams.words) & (extended | (ngrams.back_offs != 0))
            numbered.append(np.where(chosen, count - 1 + np.cumsum(chosen), -1))
            count += int(np.sum(chosen))
        return numbered

    def _may_be_context(self, words) -> np.ndarray:
        may_follow = np.all(self._allowed[words[:, 1:]], axis=1)
        return may_follow & (self._allowed[words[:, 0]] | (words[:, 0] == self._start))

    def _may_extend(self, words) -> np.ndarray:
        may_end = self._allowed[words[:, -1]] | (words[:, -1] == self._end)
        return may_end & self._may_be_context(words[:, :-1])


def _find_words(ngram_model, tokens, path) -> np.ndarray:
    """Returns each token's word id, int64 [num_tokens]; -1 if the model has neither the token nor <unk>."""
    ids = {word: index for index, word in enumerate(ngram_model.words)}
    unknown = ids.get(model.UNKNOWN, -1)
    marks = {ids.pop(mark) for mark in (model.START, model.END)}
    if not set(tokens) & (set(ids) - {model.UNKNOWN}):
        words = [word for index, word in enumerate(ngram_model.words) if index not in marks | {unknown}]
        raise errors.UserError(
            f"{path}: the n-gram model has the words {_list(words)}, but none of the {len(tokens)} tokens "
            f"that the model to tune outputs ({_list(tokens[1:])}); train another n-gram model with "
            "python -m estimator_asr.train_ngram (for a language model, with --unit=character)"
        )
    return np.array([ids.get(token, unknown) for token in tokens])


def _make_entries(graph, word_ids) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the keys, log probabilities and next states of n-grams of order 2 or higher, sorted by key."""
    tokens = np.argsort(word_ids, kind="stable")  # tokens with the same word are adjacent
    sorted_words = word_ids[tokens]
    parts = [(np.full(1, -1), np.zeros(1), np.zeros(1, np.int64))]
    for words, log_probs in graph.extensions():
        begin, end = (np.searchsorted(sorted_words, words[:, -1], side) for side in ("left", "right"))
        rows = np.repeat(np.arange(len(words)), end - begin)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
        contexts = graph.find_states(words[:, :-1])
        keys = contexts[rows] * len(word_ids) + tokens[begin[rows] + within]
        parts.append((keys, log_probs[rows], graph.find_states(words)[rows]))
    keys, log_probs, next_states = (np.concatenate(part) for part in zip(*parts))
    order = np.argsort(keys)
    return keys[order], log_probs[order], next_states[order]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_NUM_EXAMPLES]) + (", ..." if len(names) > _NUM_EXAMPLES else "")
