"""CTC prefix beam search in batches (Graves 2012, section 7.5.3; Hannun et al. 2014, algorithm 1).

A prefix is a sequence of tokens. Its probability is the sum over all paths that spell it, except paths whose
own prefixes fell out of the beam; if no prefixes fell out, the probability is exact. Probabilities are
rescaled in every frame, which takes fewer operations than logarithms; a prefix is lost if its probability is
less than 1e-38 times that of the best prefix. Hypotheses do not depend on the batch or on padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.decoding.search import frames as frames_lib
from estimator_asr.decoding.search import hypotheses, phrases, traces
from estimator_asr.decoding.search import scorers as scorers_lib
from estimator_asr.experiment import config as config_lib

_NO_HASH = -1  # parent hash of a prefix that has no parent


class Beam(NamedTuple):
    """The best prefixes of each utterance, best first."""

    blank_probs: tf.Tensor  # float32 [batch, width], scaled probability of paths that end with a blank
    token_probs: tf.Tensor  # float32 [batch, width], scaled probability of paths that end with the last token
    keys: tf.Tensor  # int64 [batch, width, 4]: hash, hash without the last token, last token, node in traces
    bonuses: tf.Tensor  # float32 [batch, width], total score from all scorers
    states: tuple[tf.Tensor, ...]  # int32 [batch, width] for each scorer


class BeamExtensions(NamedTuple):
    """Candidates for the next beam: each prefix, followed by the prefix extended by each token of the frame.

    The candidates axis therefore has the size width x (1 + tokens).
    """

    blank_probs: tf.Tensor  # float32 [batch, width], as in Beam; extended prefixes cannot end with a blank
    token_probs: tf.Tensor  # float32 [batch, candidates]
    probs: tf.Tensor  # float32 [batch, candidates], sum of blank_probs and token_probs
    bonuses: Optional[tf.Tensor]  # float32 [batch, candidates]; None if there are no scorers
    states: tuple[tf.Tensor, ...]  # int32 [batch, candidates]


def prefix_beam_search(
    config: config_lib.DecodeConfig,
    logits: tf.Tensor,
    num_frames: tf.Tensor,
    scorers: Sequence[scorers_lib.Scorer] = (),
) -> hypotheses.Hypotheses:
    """Returns the beam_width most probable token sequences of each utterance; see decoders.py."""
    beam = first_beam(config.beam_width, tf.shape(logits)[0], logits.shape[-1] - 1, scorers)
    frames = frames_lib.select(logits, num_frames, config.skipped_blank, config.candidates)
    beam, scale, links = search(frames, beam, scorers)
    ranked = rank(beam, scale, scorers)
    nodes = tf.gather(beam.keys[..., 3], ranked.places, batch_dims=1)
    nodes = tf.where(tf.math.is_inf(ranked.scores), tf.constant(traces.NO_NODE, tf.int64), nodes)
    traced = traces.trace(nodes, links)
    return hypotheses.Hypotheses(traced.ids, traced.num_tokens, ranked.scores, ranked.acoustic_scores)


def search(
    frames: frames_lib.Frames, beam: Beam, scorers: Sequence[scorers_lib.Scorer]
) -> tuple[Beam, tf.Tensor, tf.Tensor]:
    """Extends a beam frame by frame.

    Returns:
        The new beam; the logarithm of the number by which its probabilities were divided, float64 [batch];
        and the links for traces.trace.
    """
    length, batch_size, num_classes = tf.unstack(tf.shape(frames.probs))
    links = tf.TensorArray(tf.int64, length, element_shape=[None, beam.keys.shape[1], 2])
    probs = tf.reshape(frames.probs, [-1])
    rows = tf.cast(num_classes, tf.int64) * tf.range(tf.cast(length * batch_size, tf.int64))
    rows = tf.reshape(rows, [length, batch_size, 1])  # index in `probs` of each frame's first class

    def step(i, beam, scale, links):
        frame = frames_lib.Frame(*(tf.gather(field, i) for field in frames.stacked))
        last_probs = tf.gather(probs, tf.gather(rows, i) + beam.keys[..., 2])
        last_probs = tf.where(frame.is_real > 0, last_probs, 1.0)
        candidates = _extend(frame, last_probs, beam, scorers)
        beam, norm, link = _select(frame, beam, candidates, i)
        return i + 1, beam, scale + tf.cast(norm, tf.float64), links.write(i, link)

    # The scale is float64, because float32 would lose precision after a minute of audio.
    start = (0, beam, tf.zeros([batch_size, 1], tf.float64), links)
    _, beam, scale, links = tf.while_loop(lambda i, *_: i < length, step, start)
    return beam, scale[:, 0] + tf.cast(frames.skipped_score, tf.float64), links.stack()


def first_beam(
    width: int, batch_size: tf.Tensor, blank_id: int, scorers: Sequence[scorers_lib.Scorer]
) -> Beam:
    """Returns a beam that contains the empty prefix and width - 1 impossible prefixes."""
    shape = [batch_size, width]
    is_empty = tf.broadcast_to(tf.equal(tf.range(width), 0), shape)
    empty = tf.constant([phrases.EMPTY_HASH, _NO_HASH, blank_id, traces.NO_NODE], tf.int64)
    others = tf.constant(
        [[_impossible_hash(i), _NO_HASH, 0, traces.NO_NODE - i] for i in range(width)], tf.int64
    )
    return Beam(
        tf.cast(is_empty, tf.float32),
        tf.zeros(shape),
        tf.where(is_empty[..., None], empty, others),
        tf.zeros(shape),
        tuple(tf.broadcast_to(scorer.start(batch_size)[:, None], shape) for scorer in scorers),
    )


def _impossible_hash(place: int) -> int:
    """Returns a hash for an impossible prefix, which differs from the hashes of all other prefixes."""
    return _NO_HASH - 1 - place


def _extend(frame: frames_lib.Frame, last_probs, beam: Beam, scorers) -> BeamExtensions:
    """Extends each prefix by a frame that emits a blank, the last token again (last_probs) or a new token."""
    token_probs = beam.token_probs * frame.follow_token
    blank_probs = beam.blank_probs + (beam.token_probs - token_probs)
    hashes, parents, last_ids, _ = tf.unstack(beam.keys, axis=-1)
    # A token that equals the prefix's last token is a new token only after a blank.
    is_last = tf.equal(last_ids[:, :, None], frame.token_ids[:, None])  # [batch, width, tokens]
    differ = 1.0 - tf.cast(is_last, tf.float32)
    extended = (blank_probs[:, :, None] + token_probs[:, :, None] * differ) * frame.token_probs[:, None]
    is_parent = tf.equal(hashes[:, :, None], parents[:, None])  # [batch, prefix, child]
    # Small matrix products are three times as fast in float64, because float32 products go through oneDNN.
    is_in_beam = tf.matmul(tf.cast(is_parent, tf.float64), tf.cast(is_last, tf.float64))
    differ = tf.cast(tf.not_equal(last_ids[:, :, None], last_ids[:, None]), tf.float32)
    from_parent = blank_probs[:, :, None] + token_probs[:, :, None] * differ
    from_parent *= tf.cast(is_parent, tf.float32)
    # Frames beyond an utterance's end leave the beam unchanged, because another call may continue the search.
    stay = (token_probs + tf.reduce_sum(from_parent, axis=1) * frame.is_real) * last_probs
    ended = (blank_probs + token_probs * frame.is_real) * frame.blank_probs
    extended *= 1.0 - tf.cast(is_in_beam, tf.float32)
    bonuses, states = _score(scorers, beam, frame.token_ids)
    return BeamExtensions(ended, _join(stay, extended), _join(stay + ended, extended), bonuses, states)


def _score(scorers, beam: Beam, token_ids):
    """Returns the bonuses and scorer states of the candidates."""
    if not scorers:
        return None, ()
    token_ids = tf.cast(token_ids, tf.int32)
    extended = [scorer.extend(states, token_ids) for scorer, states in zip(scorers, beam.states)]
    added = tf.add_n([scores for scores, _ in extended])
    states = tuple(_join(old, new) for old, (_, new) in zip(beam.states, extended))
    return _join(beam.bonuses, beam.bonuses[:, :, None] + added), states


def _select(frame: frames_lib.Frame, beam: Beam, candidates: BeamExtensions, i):
    """Returns a beam of the best candidates, the log of its scale, and the frame's links for traces.trace."""
    width, step = beam.keys.shape[1], 1 + tf.shape(frame.token_ids)[1]
    scores = tf.math.log(candidates.probs)
    if candidates.bonuses is not None:
        scores += candidates.bonuses
    best, places = tf.math.top_k(scores, width)
    ranks = places % step
    is_new = ranks > 0
    keys = tf.gather(beam.keys, places // step, batch_dims=1)
    blank_probs = tf.gather(candidates.blank_probs, places // step, batch_dims=1)
    blank_probs *= tf.cast(ranks <= 0, tf.float32)
    tokens = tf.gather(frame.token_ids, tf.maximum(ranks - 1, 0), batch_dims=1)
    token_probs = tf.gather(candidates.token_probs, places, batch_dims=1)
    norm = tf.reduce_max(blank_probs + token_probs, axis=1, keepdims=True)
    bonuses = beam.bonuses
    if candidates.bonuses is not None:
        bonuses = tf.gather(candidates.bonuses, places, batch_dims=1)
    beam = Beam(
        blank_probs / norm,
        token_probs / norm,
        _follow(keys, tokens, is_new, tf.math.is_inf(best), i),
        bonuses,
        tuple(tf.gather(state, places, batch_dims=1) for state in candidates.states),
    )
    return beam, tf.math.log(norm), tf.stack([keys[..., 3], tokens], axis=-1)


def _follow(keys, tokens, is_new, is_impossible, i) -> tf.Tensor:
    """Returns a new beam's keys, int64 [batch, width, 4]; `keys` are those of the old prefixes."""
    hashes, parents, last_ids, nodes = tf.unstack(keys, axis=-1)
    width, zeros = keys.shape[1], tf.zeros_like(hashes)
    own = zeros + tf.cast(i * width + tf.range(width), tf.int64)
    parents = tf.where(is_new, hashes, parents)
    hashes = tf.where(is_new, hashes * phrases.HASH_FACTOR + tokens + 1, hashes)
    lost = zeros + tf.constant([_impossible_hash(place) for place in range(width)], tf.int64)
    return tf.stack(
        [
            tf.where(is_impossible, lost, hashes),
            tf.where(is_impossible, zeros + _NO_HASH, parents),
            tf.where(is_new, tokens, last_ids),
            tf.where(is_new, own, nodes),
        ],
        axis=-1,
    )


class RankedPrefixes(NamedTuple):
    """The prefixes of a beam, best first."""

    places: tf.Tensor  # int32 [batch, width], index in the beam
    scores: tf.Tensor  # float32 [batch, width], as in Hypotheses
    acoustic_scores: tf.Tensor  # float32 [batch, width]


def rank(
    beam: Beam,
    scale: tf.Tensor,
    scorers: Sequence[scorers_lib.Scorer],
    is_ended: Optional[tf.Tensor] = None,
) -> RankedPrefixes:
    """Ranks the prefixes; scorers also score the end of utterances for which is_ended, bool [batch], is True.

    If is_ended is None, all utterances have ended.
    """
    acoustic = tf.math.log(beam.blank_probs + beam.token_probs) + tf.cast(scale[:, None], tf.float32)
    added = tf.add_n(
        [tf.zeros_like(acoustic), *(scorer.finish(states) for scorer, states in zip(scorers, beam.states))]
    )
    if is_ended is not None:
        added = tf.where(is_ended[:, None], added, 0.0)
    scores, places = tf.math.top_k(acoustic + (beam.bonuses + added), beam.keys.shape[1])
    return RankedPrefixes(places, scores, tf.gather(acoustic, places, batch_dims=1))


def _join(alone, extended):
    """Joins tensors [batch, width] and [batch, width, tokens] into one, [batch, width x (1 + tokens)]."""
    both = tf.concat([alone[:, :, None], extended], axis=2)
    return tf.reshape(both, [tf.shape(both)[0], -1])
