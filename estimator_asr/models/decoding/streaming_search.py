"""CTC prefix beam search over a recording that comes in pieces: the beam is part of the state."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import streaming
from estimator_asr.models.decoding import frames as frames_lib
from estimator_asr.models.decoding import hypotheses, prefix_beam_search
from estimator_asr.models.decoding import scorers as scorers_lib


def search(
    config: config_lib.DecodeConfig,
    logits: tf.Tensor,
    num_frames: tf.Tensor,
    is_last: tf.Tensor,
    state: streaming.State,
    max_tokens: int,
    scorers: Sequence[scorers_lib.Scorer] = (),
) -> hypotheses.Hypotheses:
    """Returns the hypotheses so far; see decoders.py for logits, num_frames and scorers.

    Args:
        is_last: bool [batch], where what scorers add at the end counts.
        max_tokens: room of the state; tokens beyond it are lost.
    """
    start = prefix_beam_search.first_beam(config.beam_width, 1, logits.shape[-1] - 1, scorers)
    with tf.compat.v1.variable_scope("acoustic/beam"):
        beam = _take_beam(start, state)
        scale = state.take("scale", 0.0)
        skipped = state.take("skipped", False)
        ids = state.take("ids", tf.fill([config.beam_width, max_tokens], -1))
        counts = state.take("num_tokens", tf.zeros([config.beam_width], tf.int32))
        frames = frames_lib.select(logits, num_frames, config.skipped_blank, config.candidates, skipped)
        beam, added, links = prefix_beam_search.search(frames, beam, scorers)
        added_ids, num_added, roots = prefix_beam_search.trace(beam.keys[..., 3], links)
        ids, counts = (tf.gather(each, roots, batch_dims=1) for each in (ids, counts))
        ids, counts = _append(ids, counts, added_ids, num_added)
        _put_beam(beam, state)
        after = {"scale": scale + added, "skipped": frames.ends_skipped, "ids": ids, "num_tokens": counts}
        for name, value in after.items():
            state.put(name, value)
    ranked = prefix_beam_search.rank(beam, scale + added, scorers, is_last)
    ids, counts = (tf.gather(each, ranked.places, batch_dims=1) for each in (ids, counts))
    is_possible = ranked.scores > -float("inf")
    ids = tf.where(is_possible[..., None], ids, -1)[..., : tf.maximum(1, tf.reduce_max(counts))]
    counts = tf.where(is_possible, counts, 0)
    return hypotheses.Hypotheses(ids, counts, ranked.scores, ranked.acoustic_scores)


def _take_beam(start: prefix_beam_search.Beam, state: streaming.State) -> prefix_beam_search.Beam:
    """Returns the beam of the call before; its nodes are those of the prefixes that a call begins with."""
    places = start.keys[0, :, 3]
    keys = state.take("keys", start.keys[0, :, :3])
    nodes = tf.broadcast_to(places, tf.shape(keys)[:2])
    return prefix_beam_search.Beam(
        state.take("blank_probs", start.blank_probs[0]),
        state.take("token_probs", start.token_probs[0]),
        tf.concat([keys, nodes[..., None]], axis=2),
        state.take("bonuses", start.bonuses[0]),
        tuple(state.take(f"scorer_{i}", each[0]) for i, each in enumerate(start.states)),
    )


def _put_beam(beam: prefix_beam_search.Beam, state: streaming.State) -> None:
    state.put("keys", beam.keys[..., :3])
    for name in ("blank_probs", "token_probs", "bonuses"):
        state.put(name, getattr(beam, name))
    for i, each in enumerate(beam.states):
        state.put(f"scorer_{i}", each)


def _append(ids, counts, added, num_added):
    """Returns ids, int32 [batch, width, max_tokens], followed by those added, and their numbers."""
    shape = tf.shape(ids)
    rows = (tf.reshape(each, [shape[0] * shape[1], -1]) for each in (ids, added))
    numbers = (tf.reshape(each, [-1]) for each in (counts, num_added))
    (first, second), (num_first, num_second) = rows, numbers
    joined, total = streaming.append(first, num_first, second, num_second)
    is_id = tf.sequence_mask(total, shape[2])
    joined = tf.where(is_id, joined[:, : shape[2]], -1)
    return tf.reshape(joined, shape), tf.reshape(tf.minimum(total, shape[2]), shape[:2])
