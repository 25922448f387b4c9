"""CTC prefix beam search in batches (Graves 2012, section 7.5.3; Hannun et al. 2014, algorithm 1).

A prefix is a sequence of tokens. Its probability is the sum over all paths that write it, as far as their own
prefixes stayed in the beam; a hypothesis that was in the beam all the time has its exact probability.
Probabilities are float64 and scaled in every frame, which takes fewer operations than logarithms; prefixes
1e-300 times less probable than the best one are lost. A hypothesis is the same in any batch and padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from estimator_asr.models.decoding import frames as frames_lib
from estimator_asr.models.decoding import hypotheses

_HASH_FACTOR = 6364136223846793005  # of a 64-bit linear congruential generator (Knuth's MMIX)
_EMPTY_HASH = 1  # of the empty prefix
_NO_HASH = -1  # of its parent
_NO_NODE = -1


class Beam(NamedTuple):
    """The best prefixes of each utterance, best first."""

    blank_probs: tf.Tensor  # float64 [batch, width], scaled: of the paths that end with a blank
    token_probs: tf.Tensor  # float64 [batch, width], scaled: of the paths that end with the last token
    bonuses: tf.Tensor  # float32 [batch, width], sum of what the scorers added
    keys: tf.Tensor  # int64 [batch, width, 4]: hash, hash without the last token, last token, node
    states: tuple[tf.Tensor, ...]  # int32 [batch, width] for each scorer


class Candidates(NamedTuple):
    """The prefixes of a beam after a frame, then each of them with each token of the frame."""

    blank_probs: tf.Tensor  # float64 [batch, width + width x tokens]
    token_probs: tf.Tensor
    bonuses: tf.Tensor  # float32
    states: tuple[tf.Tensor, ...]  # int32


def prefix_beam_search(
    config, logits: tf.Tensor, num_frames: tf.Tensor, scorers: Sequence = ()
) -> hypotheses.Hypotheses:
    """Returns the most probable token sequences, beam_width of each utterance; see decoders.py."""
    frames = frames_lib.select(logits, num_frames, config.skipped_blank, config.candidates)
    length, batch_size, _ = tf.unstack(tf.shape(frames.token_ids))
    beam = _first_beam(config.beam_width, batch_size, logits.shape[-1] - 1, scorers)
    links = tf.TensorArray(tf.int64, length, element_shape=[None, config.beam_width, 2])

    def search(i, beam, scale, links):
        frame = frames_lib.Frames(*(tf.gather(each, i) for each in frames[:5]), *frames[5:])
        candidates = _extend(frame, beam, scorers)
        beam, norm, link = _select(frame, beam, candidates, i)
        return i + 1, beam, scale + norm, links.write(i, link)

    _, beam, scale, links = tf.while_loop(
        lambda i, *_: i < length, search, (0, beam, tf.zeros([batch_size, 1], tf.float64), links)
    )
    scale = tf.cast(scale, tf.float32) + frames.skipped_score[:, None]
    return _rank(config, beam, scale, links.stack(), scorers)


def _first_beam(width: int, batch_size: tf.Tensor, blank_id: int, scorers: Sequence) -> Beam:
    """Returns a beam of the empty prefix, and width - 1 that are impossible."""
    shape = [batch_size, width]
    is_empty = tf.broadcast_to(tf.equal(tf.range(width), 0), shape)
    empty = tf.constant([_EMPTY_HASH, _NO_HASH, blank_id, _NO_NODE], tf.int64)
    return Beam(
        tf.cast(is_empty, tf.float64),
        tf.zeros(shape, tf.float64),
        tf.zeros(shape),
        tf.where(is_empty[..., None], empty, _impossible_keys(width)),
        tuple(tf.broadcast_to(scorer.start(batch_size)[:, None], shape) for scorer in scorers),
    )


def _impossible_keys(width: int) -> tf.Tensor:
    """Returns int64 [width, 4]: keys of prefixes of probability 0, which equal no other."""
    return tf.constant([[_NO_HASH - 1 - i, _NO_HASH, 0, _NO_NODE] for i in range(width)], tf.int64)


def _extend(frame: frames_lib.Frames, beam: Beam, scorers: Sequence) -> Candidates:
    """Adds a frame to each prefix: a blank, its last token again, or another token."""
    token_probs = tf.where(frame.follow_blank, tf.zeros([], tf.float64), beam.token_probs)
    blank_probs = beam.blank_probs + (beam.token_probs - token_probs)
    probs = blank_probs + token_probs
    hashes, parents, last_ids, _ = tf.unstack(beam.keys, axis=-1)
    last_ids = tf.cast(last_ids, tf.int32)
    is_last = tf.equal(last_ids[:, :, None], frame.token_ids[:, None])  # [batch, width, tokens]
    is_parent = tf.equal(hashes[:, :, None], parents[:, None])  # [batch, width, width]: of the second
    is_repeat = tf.equal(last_ids[:, :, None], last_ids[:, None])
    # A token that equals the last one is new after a blank alone.
    from_parent = tf.where(is_repeat, blank_probs[:, :, None], probs[:, :, None])
    from_parent = tf.reduce_sum(tf.where(is_parent, from_parent, tf.zeros([], tf.float64)), axis=1)
    last_probs = tf.cast(tf.gather(frame.probs, last_ids, batch_dims=1), tf.float64)
    is_in_beam = tf.matmul(tf.cast(is_parent, tf.float32), tf.cast(is_last, tf.float32)) > 0
    extended = tf.where(is_last, blank_probs[:, :, None], probs[:, :, None]) * frame.token_probs[:, None]
    extended = tf.where(is_in_beam, tf.zeros([], tf.float64), extended)
    bonuses, states = _score(scorers, beam, frame.token_ids)
    return Candidates(
        probs * frame.blank_probs,
        tf.concat([(token_probs + from_parent) * last_probs, _join(extended)], axis=1),
        tf.concat([beam.bonuses, _join(beam.bonuses[:, :, None] + bonuses)], axis=1),
        tuple(tf.concat([old, _join(new)], axis=1) for old, new in zip(beam.states, states)),
    )


def _score(scorers: Sequence, beam: Beam, token_ids: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns what tokens add to each prefix, float32 [batch, width, tokens], and the states after them."""
    found = [scorer.extend(states, token_ids) for scorer, states in zip(scorers, beam.states)]
    total = tf.add_n([scores for scores, _ in found]) if found else tf.zeros([1, 1, tf.shape(token_ids)[1]])
    return total, [states for _, states in found]


def _select(
    frame: frames_lib.Frames, beam: Beam, candidates: Candidates, i: tf.Tensor
) -> tuple[Beam, tf.Tensor, tf.Tensor]:
    """Returns the best candidates as a beam; log of its scale; node before and last token of each."""
    width, num_tokens = beam.keys.shape[1], tf.shape(frame.token_ids)[1]
    stays = tf.pad(candidates.blank_probs, [[0, 0], [0, width * num_tokens]])
    probs = stays + candidates.token_probs
    scores = tf.cast(tf.math.log(probs), tf.float32) + candidates.bonuses
    best, places = tf.math.top_k(scores, width)
    others = tf.maximum(places - width, 0)
    is_new, sources = places >= width, tf.where(places < width, places, others // num_tokens)
    keys = tf.gather(beam.keys, sources, batch_dims=1)
    tokens = tf.cast(tf.gather(frame.token_ids, others % num_tokens, batch_dims=1), tf.int64)
    link = tf.stack([keys[..., 3], tokens], axis=-1)
    nodes = tf.broadcast_to(tf.cast(i * width + tf.range(width), tf.int64), tf.shape(places))
    hashes = keys[..., 0] * _HASH_FACTOR + tokens + 1
    keys = tf.where(is_new[..., None], tf.stack([hashes, keys[..., 0], tokens, nodes], axis=-1), keys)
    keys = tf.where(tf.math.is_inf(best)[..., None], _impossible_keys(width), keys)
    norm = tf.reduce_max(probs, axis=1, keepdims=True)
    beam = Beam(
        tf.gather(stays, places, batch_dims=1) / norm,
        tf.gather(candidates.token_probs, places, batch_dims=1) / norm,
        tf.gather(candidates.bonuses, places, batch_dims=1),
        keys,
        tuple(tf.gather(each, places, batch_dims=1) for each in candidates.states),
    )
    return beam, tf.math.log(norm), link


def _rank(config, beam: Beam, scale: tf.Tensor, links: tf.Tensor, scorers: Sequence) -> hypotheses.Hypotheses:
    """Returns the prefixes of the last frame with what scorers add at the end, best first."""
    acoustic = tf.cast(tf.math.log(beam.blank_probs + beam.token_probs), tf.float32) + scale
    endings = [scorer.finish(states) for scorer, states in zip(scorers, beam.states)]
    totals = acoustic + tf.add_n([beam.bonuses, *endings])
    scores, places = tf.math.top_k(totals, config.beam_width)
    nodes = tf.gather(beam.keys[..., 3], places, batch_dims=1)
    ids, num_tokens = trace(tf.cast(nodes, tf.int32), tf.cast(links, tf.int32))
    return hypotheses.Hypotheses(ids, num_tokens, scores, tf.gather(acoustic, places, batch_dims=1))


def trace(nodes: tf.Tensor, links: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Follows nodes back to the empty prefix.

    Args:
        nodes: int32 [batch, num_best], frame x width + place; -1: the empty prefix.
        links: int32 [num_searched, batch, width, 2], node before and token of each node.

    Returns:
        int32 [batch, num_best, max_tokens], -1 beyond the tokens, and int32 [batch, num_best], their number.
    """
    shape = tf.shape(links)
    table = tf.reshape(tf.transpose(links, [1, 0, 2, 3]), [shape[1], shape[0] * shape[2], 2])
    tokens = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=nodes.shape)

    def step(i, nodes, tokens):
        found = tf.gather(table, tf.maximum(nodes, 0), batch_dims=1)
        is_token = nodes >= 0
        tokens = tokens.write(i, tf.where(is_token, found[..., 1], -1))
        return i + 1, tf.where(is_token, found[..., 0], nodes), tokens

    def is_left(i, nodes, tokens):
        del tokens
        return tf.equal(i, 0) | tf.reduce_any(nodes >= 0)  # an empty TensorArray cannot be stacked

    _, _, tokens = tf.while_loop(is_left, step, (0, nodes, tokens))
    backwards = tf.transpose(tokens.stack(), [1, 2, 0])  # [batch, num_best, max_tokens], last token first
    num_tokens = tf.reduce_sum(tf.cast(backwards >= 0, tf.int32), axis=-1)
    return _reverse(backwards, num_tokens), num_tokens


def _reverse(backwards: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    shape = tf.shape(backwards)
    rows = tf.reshape(backwards, [shape[0] * shape[1], shape[2]])
    return tf.reshape(tf.reverse_sequence(rows, tf.reshape(num_tokens, [-1]), seq_axis=1), shape)


def _join(values: tf.Tensor) -> tf.Tensor:
    """Returns [batch, width, tokens] as [batch, width x tokens]."""
    shape = tf.shape(values)
    return tf.reshape(values, [shape[0], shape[1] * shape[2]])
