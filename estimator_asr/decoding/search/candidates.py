"""Candidates: the characters that a token can stand for; only these are scored, not all characters.

In running text, a syllable has on average about 12 candidates among some 6,000 characters. So instead of a
matrix product [batch, length, characters], the model scores a list of (position, character) pairs. A position
is an index into batch x length, row by row; padding has no pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

_USUAL_CANDIDATES = 16  # candidates per position, more than most batches have on average


class Pairs(NamedTuple):
    """The (position, character) pairs of a batch, ordered by position, before they are scored."""

    positions: tf.Tensor  # int32 [num_pairs]
    characters: tf.Tensor  # int32 [num_pairs]
    readings: tf.Tensor  # int32 [num_pairs], index of (token, character) among character_mask's True entries


class ScoredPairs(NamedTuple):
    """Scored pairs of a batch; `logits` is float32 [num_pairs]; `shape`, int32 [2], is [batch, length]."""

    logits: tf.Tensor
    positions: tf.Tensor
    characters: tf.Tensor
    shape: tf.Tensor


class Best(NamedTuple):
    """The most probable character at each position."""

    characters: tf.Tensor  # int32 [batch, length], -1 at padding
    log_probs: tf.Tensor  # float32 [batch, length], 0 at padding


@tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would recompile for each number of pairs
def list_pairs(
    token_ids: tf.Tensor, num_tokens: tf.Tensor, character_mask: np.ndarray, is_padded: bool = False
) -> Pairs:
    """Returns the candidates that `character_mask`, bool [tokens, characters], allows for each token.

    Args:
        token_ids: int32 [batch, length].
        num_tokens: int32 [batch]; further tokens are ignored.
        is_padded: if True, pairs with position 0 and character -1 are appended until the number of pairs is a
            power of two and at least _USUAL_CANDIDATES per position. Most batches of one shape then have the
            same number of pairs.
    """
    tokens, characters = np.nonzero(character_mask)
    bounds = np.searchsorted(tokens, np.arange(len(character_mask) + 1)).astype(np.int32)
    is_real = tf.sequence_mask(num_tokens, tf.shape(token_ids)[1])
    starts, limits = tf.gather(bounds, token_ids), tf.gather(bounds[1:], token_ids)
    limits = tf.where(is_real, limits, starts)
    readings = tf.ragged.range(tf.reshape(starts, [-1]), tf.reshape(limits, [-1]))
    pairs = Pairs(
        tf.cast(readings.value_rowids(), tf.int32),
        tf.gather(characters.astype(np.int32), readings.flat_values),
        readings.flat_values,
    )
    return _pad(pairs, _USUAL_CANDIDATES * tf.size(token_ids)) if is_padded else pairs


def pad_readings(character_mask: np.ndarray, at_least: int) -> tuple[np.ndarray, np.ndarray]:
    """Lists the candidates of each token except <unk>, whose candidates are all characters.

    Returns:
        Characters, padded with -1, and readings (see Pairs), both int32 [tokens, count]. `count` is the
        largest number of candidates that a token has, or `at_least` if that is larger.
    """
    tokens, characters = np.nonzero(character_mask)
    places = np.arange(len(tokens)) - np.searchsorted(tokens, tokens)
    is_known = tokens > 0
    count = max(at_least, int(character_mask[1:].sum(axis=1).max(initial=0)))
    padded = np.full([2, len(character_mask), count], -1, np.int32)
    rows = tokens[is_known], places[is_known]
    padded[0][rows], padded[1][rows] = characters[is_known], np.flatnonzero(is_known)
    return padded[0], np.maximum(padded[1], 0)


def _pad(pairs, at_least):
    number, sizes = tf.size(pairs.positions), tf.constant([2**power for power in range(31)])
    missing = tf.gather(sizes, tf.searchsorted(sizes, tf.maximum(number, at_least)[None])[0]) - number
    padding = zip(pairs, (0, -1, 0))
    return Pairs(*(tf.pad(value, [[0, missing]], constant_values=fill) for value, fill in padding))


def cross_entropy(candidates: ScoredPairs, character_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the cross-entropy of labels, int32 [batch, length], over the candidates at each position.

    Returns:
        Losses and weights, float32 [batch, length]. The weight is 1 if the label is a candidate. Otherwise,
        for example at padding, both the weight and the loss are 0.
    """
    log_probs = log_softmax(candidates)
    labels = tf.gather(tf.reshape(character_ids, [-1]), candidates.positions)
    is_label = tf.equal(candidates.characters, labels)
    weights = _sum(candidates, tf.cast(is_label, tf.float32))
    losses = -_sum(candidates, tf.where(is_label, log_probs, tf.zeros_like(log_probs)))
    return tf.reshape(losses, candidates.shape), tf.reshape(weights, candidates.shape)


def best(candidates: ScoredPairs) -> Best:
    """Returns the most probable candidate at each position and its log probability."""
    log_probs = log_softmax(candidates)
    highest = tf.gather(_max(candidates, log_probs), candidates.positions)
    is_best = log_probs >= highest
    characters = _max(candidates, tf.where(is_best, candidates.characters, -1))
    characters = tf.reshape(tf.maximum(characters, -1), candidates.shape)
    log_probs = tf.reshape(_max(candidates, log_probs), candidates.shape)
    return Best(characters, tf.where(characters >= 0, log_probs, tf.zeros_like(log_probs)))


def log_softmax(candidates: ScoredPairs) -> tf.Tensor:
    """Returns the log probability of each pair among the pairs at its position, float32 [num_pairs]."""
    highest = tf.stop_gradient(tf.gather(_max(candidates, candidates.logits), candidates.positions))
    shifted = candidates.logits - highest
    totals = tf.gather(_sum(candidates, tf.exp(shifted)), candidates.positions)
    return shifted - tf.math.log(totals)


def _sum(candidates, values):
    """Returns the sum of `values`, [num_pairs], at each position, [batch x length]; 0 if it has no pairs."""
    return tf.math.unsorted_segment_sum(values, candidates.positions, tf.reduce_prod(candidates.shape))


def _max(candidates, values):
    """Returns the maximum of `values` at each position, or the lowest number if it has no pairs."""
    return tf.math.unsorted_segment_max(values, candidates.positions, tf.reduce_prod(candidates.shape))
