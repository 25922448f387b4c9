"""Counts n-grams in sentences: finds which n-grams of each order occur, and how often."""

from __future__ import annotations

import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.decoding.ngrams import model
from tfrecord_builder import errors

_RESERVED = (model.UNKNOWN, model.START, model.END)  # the words with the first ids, in this order
START_ID, _END_ID = _RESERVED.index(model.START), _RESERVED.index(model.END)


class Text(NamedTuple):
    """Sentences as word ids."""

    words: tuple[str, ...]  # <unk>, <s>, </s>, then the others, sorted
    stream: np.ndarray  # int64 [num_words + 2 * num_sentences], each sentence between <s> and </s>


class Counts(NamedTuple):
    """The distinct n-grams of one order, sorted by context and word; all are int64 [num_ngrams]."""

    contexts: np.ndarray  # index of the n-gram without its last word, in the next lower order
    words: np.ndarray  # the last word
    suffixes: np.ndarray  # index of the n-gram without its first word, in the next lower order
    occurrences: np.ndarray


def encode(sentences: Iterable[Sequence[str]]) -> Text:
    """Turns sentences into word ids; raises errors.UserError if no words occur, or if <s> or </s> does."""
    ids = {word: index for index, word in enumerate(_RESERVED)}
    stream = array.array("q")
    for sentence in sentences:
        for mark in (model.START, model.END):
            if mark in sentence:
                raise errors.UserError(
                    f"text: sentence {' '.join(sentence)!r} has the word {mark}, which is reserved for the "
                    "ends of sentences; remove it"
                )
        stream.append(START_ID)
        stream.extend(ids.setdefault(word, len(ids)) for word in sentence)
        stream.append(_END_ID)
    if len(ids) == len(_RESERVED) and ids[model.UNKNOWN] not in stream:
        raise errors.UserError("text: all sentences are empty; pass text with words")
    return _sort(list(ids), np.array(stream, np.int64))


def _sort(words, stream):
    order = [*range(len(_RESERVED)), *sorted(range(len(_RESERVED), len(words)), key=words.__getitem__)]
    new_ids = np.empty(len(words), np.int64)
    new_ids[order] = np.arange(len(words))
    return Text(tuple(words[index] for index in order), new_ids[stream])


def count(text: Text, order: int) -> list[Counts]:
    """Counts the n-grams of order 1 to `order` within sentences, with <s> and </s>.

    The 1-grams include words that do not occur (<unk>). Orders longer than every sentence are left out.
    """
    num_words = len(text.words)
    word_ids = np.arange(num_words)
    zeros = np.zeros(num_words, np.int64)
    counts = [Counts(zeros, word_ids, zeros, np.bincount(text.stream, minlength=num_words))]
    at = text.stream  # index of the n-gram that starts at each position; -1 if its sentence is too short
    for length in range(2, order + 1):
        longer, at = _extend(text.stream, at, length, num_words)
        if not len(longer.words):
            break
        counts.append(longer)
    return counts


def _extend(stream, at, length, num_words):
    """Counts the n-grams of `length` words; `at` has the shorter n-gram's index at each position."""
    last_words, shorter = stream[length - 1 :], at[: max(len(stream) - length + 1, 0)]
    places = np.flatnonzero((shorter >= 0) & (last_words != START_ID))
    keys = shorter[places] * num_words + last_words[places]
    distinct, first, ids, occurrences = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    longer_at = np.full(len(stream), -1, np.int64)
    longer_at[places] = ids
    suffixes = at[places[first] + 1]
    return Counts(distinct // num_words, distinct % num_words, suffixes, occurrences), longer_at
