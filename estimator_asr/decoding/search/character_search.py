"""Beam search over the language model's candidates for each character of a sentence, with an n-gram model.

The language model's probability of a character does not depend on the other characters; the n-gram model
knows which characters tend to follow which. Sentences are ranked by the product of the two probabilities.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.decoding.search import candidates as candidates_lib
from estimator_asr.decoding.search import scorers
from estimator_asr.experiment import config as config_lib

_IMPOSSIBLE = -1e9  # not -inf, because the softmax over padding would then be NaN


class Sentence(NamedTuple):
    """The best sentence for each utterance."""

    characters: tf.Tensor  # int32 [batch, length], -1 at padding
    scores: tf.Tensor  # float32 [batch], log probability of the characters plus the n-gram model's score
    probs: tf.Tensor  # float32 [batch, length], probability of each character given all others; 1 at padding


class _Lattice(NamedTuple):
    """The most probable candidates at each position, best first."""

    characters: tf.Tensor  # int32 [batch, length, num_candidates]
    log_probs: tf.Tensor  # float32 [batch, length, num_candidates], padded with _IMPOSSIBLE


def search(
    config: config_lib.DecodeConfig,
    candidates: candidates_lib.ScoredPairs,
    num_tokens: tf.Tensor,
    scorer: scorers.NgramScorer,
) -> Sentence:
    """Finds each utterance's best sentence, extending the config.beam_width best beginnings at each position.

    `num_tokens` is int32 [batch]; the scorer uses an n-gram model of characters.
    """
    lattice = _list_best(candidates, config.candidates)
    scores, links = _run(config.beam_width, lattice, num_tokens, scorer)
    best, states = _trace(tf.argmax(scores, axis=1, output_type=tf.int32), links)
    is_real = tf.sequence_mask(num_tokens, candidates.shape[1])
    characters = tf.where(is_real, tf.gather(lattice.characters, best, batch_dims=2), -1)
    probs = tf.nn.softmax(_judge(lattice, characters, states, num_tokens, scorer))
    probs = tf.where(is_real, tf.gather(probs, best, batch_dims=2), 1.0)
    return Sentence(characters, tf.reduce_max(scores, axis=1), probs)


def _list_best(candidates, count) -> _Lattice:
    log_probs = candidates_lib.log_softmax(candidates)
    order = tf.argsort(log_probs, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(candidates.positions, order), stable=True))
    positions = tf.gather(candidates.positions, order)
    rows = tf.reduce_prod(candidates.shape)
    starts = tf.searchsorted(positions, tf.range(rows))
    ranks = tf.range(tf.shape(positions)[0]) - tf.gather(starts, positions)
    is_kept = ranks < count
    order, places = tf.boolean_mask(order, is_kept), tf.boolean_mask(positions * count + ranks, is_kept)
    shape = tf.concat([candidates.shape, [count]], 0)

    def place(values, missing):
        empty = tf.fill([rows * count], tf.cast(missing, values.dtype))
        filled = tf.tensor_scatter_nd_update(empty, places[:, None], tf.gather(values, order))
        return tf.reshape(filled, shape)

    return _Lattice(place(candidates.characters, 0), place(log_probs, _IMPOSSIBLE))


def _run(width, lattice: _Lattice, num_tokens, scorer) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns scores, float32 [batch, width], and links, int32 [length, batch, width, 3].

    A link holds the extended sentence's index in the beam, the candidate's index in the lattice, and the
    n-gram state before the candidate.
    """
    batch_size, length, count = tf.unstack(tf.shape(lattice.characters))
    shape = [batch_size, width]
    first = tf.where(tf.equal(tf.range(width), 0), 0.0, _IMPOSSIBLE)
    beam = (tf.broadcast_to(first, shape), tf.broadcast_to(scorer.start(batch_size)[:, None], shape))
    links = tf.TensorArray(tf.int32, length, element_shape=[None, width, 3])
    places = tf.broadcast_to(tf.range(width), shape)

    def step(i, scores, states, links):
        added, after = scorer.extend(states, lattice.characters[:, i])
        totals = scores[:, :, None] + lattice.log_probs[:, i, None] + added
        best, chosen = tf.math.top_k(tf.reshape(totals, [batch_size, -1]), width)
        before = chosen // count
        link = tf.stack([before, chosen % count, tf.gather(states, before, batch_dims=1)], axis=-1)
        after = tf.gather(tf.reshape(after, [batch_size, -1]), chosen, batch_dims=1)
        is_real = (i < num_tokens)[:, None]
        same = tf.stack([places, tf.zeros_like(places), states], axis=-1)
        links = links.write(i, tf.where(is_real[..., None], link, same))
        return i + 1, tf.where(is_real, best, scores), tf.where(is_real, after, states), links

    _, scores, states, links = tf.while_loop(lambda i, *_: i < length, step, (0, *beam, links))
    return scores + scorer.finish(states), links.stack()


def _trace(place, links):
    """Follows the links back; returns each candidate's lattice index and n-gram state, [batch, length]."""
    length = tf.shape(links)[0]
    path = tf.TensorArray(tf.int32, length, element_shape=[None, 2])

    def step(i, place, path):
        link = tf.gather(links[i], place, batch_dims=1)
        return i - 1, link[:, 0], path.write(i, link[:, 1:])

    _, _, path = tf.while_loop(lambda i, *_: i >= 0, step, (length - 1, place, path))
    best, states = tf.unstack(path.stack(), axis=-1)
    return tf.transpose(best), tf.transpose(states)


def _judge(lattice: _Lattice, characters, states, num_tokens, scorer) -> tf.Tensor:
    """Scores each candidate, with all other characters fixed; returns float32 in the lattice's shape."""
    batch_size, length, count = tf.unstack(tf.shape(lattice.characters))
    rows = batch_size * length
    added, after = scorer.extend(tf.reshape(states, [rows, 1]), tf.reshape(lattice.characters, [rows, count]))
    scores, after = added[:, 0], after[:, 0]
    for offset in range(1, scorer.context_length + 1):  # effect of a candidate on later characters
        following = tf.pad(characters[:, offset:], [[0, 0], [0, tf.minimum(offset, length)]])
        added, extended = scorer.extend(after, tf.maximum(tf.reshape(following, [rows, 1]), 0))
        place = tf.reshape(tf.range(length)[None] + offset - num_tokens[:, None], [rows, 1])
        scores += tf.where(place < 0, added[..., 0], 0.0)
        scores += tf.where(tf.equal(place, 0), scorer.finish(after), 0.0)
        after = extended[..., 0]
    return lattice.log_probs + tf.reshape(scores, [batch_size, length, count])
