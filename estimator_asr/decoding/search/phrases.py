"""Finds token phrases in hypotheses by looking up the 64-bit hashes of all token windows at once."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

HASH_FACTOR = 6364136223846793005  # multiplier of Knuth's MMIX random generator, modulo 2^64
EMPTY_HASH = 1


class Phrases(NamedTuple):
    """Phrases to favour; rows without tokens are ignored."""

    token_ids: tf.Tensor  # int32 [num_phrases, max_length], padded with -1
    boosts: tf.Tensor  # float32 [num_phrases], natural logarithms


class Matches(NamedTuple):
    """The phrase that covers each token, int32 [rows, max_tokens]."""

    phrases: tf.Tensor  # index of the phrase, -1 if there is none
    offsets: tf.Tensor  # position of the token in its phrase


def hash_windows(token_ids: tf.Tensor) -> tf.Tensor:
    """Returns the hashes of all token windows, int64 [last token, row, first token].

    `token_ids` are int32 [rows, max_length]. Windows that end before they begin have EMPTY_HASH.
    """
    columns = tf.transpose(tf.cast(token_ids, tf.int64))
    length = tf.shape(columns)[0]
    begins = tf.range(length)

    def step(last, hashes, windows):
        longer = hashes * HASH_FACTOR + tf.gather(columns, last)[:, None] + 1
        hashes = tf.where(begins <= last, longer, hashes)
        return last + 1, hashes, windows.write(last, hashes)

    windows = tf.TensorArray(tf.int64, length, element_shape=[None, None])
    start = (0, tf.fill(tf.shape(token_ids), tf.constant(EMPTY_HASH, tf.int64)), windows)
    shapes = (tf.TensorShape([]), tf.TensorShape([None, None]), tf.TensorShape(None))
    *_, windows = tf.while_loop(lambda last, *_: last < length, step, start, shapes)
    return windows.stack()


def match(phrases: Phrases, token_ids: tf.Tensor, num_tokens: tf.Tensor) -> Matches:
    """Finds phrases from left to right, the longest one at each token, without overlaps.

    `token_ids` is int32 [rows, max_tokens], `num_tokens` is int32 [rows]. If phrases are equal, only the
    first of them is found.
    """
    lengths = tf.reduce_sum(tf.cast(phrases.token_ids >= 0, tf.int32), axis=1)
    hashes = _hash_rows(phrases.token_ids)
    order = tf.argsort(tf.where(lengths > 0, hashes, EMPTY_HASH), stable=True)
    hashes, lengths = tf.gather(hashes, order), tf.gather(lengths, order)
    places = _find_longest(hashes, tf.reduce_max(tf.pad(lengths, [[0, 1]])), token_ids, num_tokens)
    # If no phrase begins at a token, its place is the table's size; the padding makes that index valid.
    return _choose(
        tf.gather(tf.pad(order, [[0, 1]], constant_values=-1), places),
        tf.gather(tf.pad(lengths, [[0, 1]]), places),
    )


def _hash_rows(token_ids):
    """Returns each phrase's hash, EMPTY_HASH if it has no tokens; any -1 is skipped, even between tokens."""
    columns = tf.transpose(tf.cast(token_ids, tf.int64))

    def step(i, hashes):
        column = tf.gather(columns, i)
        return i + 1, tf.where(column >= 0, hashes * HASH_FACTOR + column + 1, hashes)

    start = (0, tf.fill(tf.shape(token_ids)[:1], tf.constant(EMPTY_HASH, tf.int64)))
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    return tf.while_loop(lambda i, _: i < tf.shape(columns)[0], step, start, shapes)[1]


def _find_longest(table, max_length, token_ids, num_tokens) -> tf.Tensor:
    """Returns the index of the longest phrase that begins at each token, or the table's size if none does."""
    shape, size = tf.shape(token_ids), tf.shape(table)[0]
    remaining = num_tokens[:, None] - tf.range(shape[1])
    columns = tf.pad(tf.cast(token_ids, tf.int64), [[0, 0], [0, max_length]])

    def step(i, hashes, longest):
        hashes = hashes * HASH_FACTOR + columns[:, i : i + shape[1]] + 1
        places, is_phrase = look_up(table, hashes)
        return i + 1, hashes, tf.where(is_phrase & (i < remaining), places, longest)

    start = (0, tf.fill(shape, tf.constant(EMPTY_HASH, tf.int64)), tf.fill(shape, size))
    shapes = (tf.TensorShape([]), *[tf.TensorShape([None, None])] * 2)
    return tf.while_loop(lambda i, *_: i < max_length, step, start, shapes)[2]


def _choose(phrases, lengths) -> Matches:
    """Chooses matches that do not overlap, given the phrases that begin at each token and their lengths."""
    # The padding adds a token, because an empty TensorArray cannot be stacked.
    phrases, lengths = (tf.pad(tf.transpose(rows), [[0, 1], [0, 0]]) for rows in (phrases, lengths))
    num_tokens = tf.shape(phrases)[0]
    chosen = tf.TensorArray(tf.int32, num_tokens, element_shape=[3, None])

    def step(i, before, chosen):
        phrase, offset, remaining = tf.unstack(before)
        begins = remaining <= 0
        phrase = tf.where(begins, tf.gather(phrases, i), phrase)
        offset = tf.where(begins, 0, offset + 1)
        remaining = tf.where(begins, tf.gather(lengths, i), remaining) - 1
        now = tf.stack([phrase, offset, remaining])
        return i + 1, now, chosen.write(i, now)

    start = (0, tf.zeros([3, tf.shape(phrases)[1]], tf.int32), chosen)
    shapes = (tf.TensorShape([]), tf.TensorShape([3, None]), tf.TensorShape(None))
    *_, chosen = tf.while_loop(lambda i, *_: i < num_tokens, step, start, shapes)
    phrase, offset, _ = tf.unstack(tf.transpose(chosen.stack()[:-1], [1, 2, 0]))
    return Matches(phrase, offset)


def look_up(table: tf.Tensor, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Looks up keys in a sorted table, int64 [size]; returns their indices, and whether they were found."""
    places = tf.reshape(tf.searchsorted(table, tf.reshape(keys, [-1])), tf.shape(keys))
    # The index is the table's size for a key above all others; the padding makes that index valid.
    return places, tf.equal(tf.gather(tf.pad(table, [[0, 1]]), places), keys) & (places < tf.shape(table)[0])
