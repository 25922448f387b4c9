"""CTC prefix beam search over a recording that comes in pieces: the beam is part of the state."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import streaming
from estimator_asr.models.decoding import frames as frames_lib
from estimator_asr.models.decoding import hypotheses, prefix_beam_search, token_times
from estimator_asr.models.decoding import scorers as scorers_lib


def search(
    config: config_lib.DecodeConfig,
    logits: tf.Tensor,
    num_frames: tf.Tensor,
    is_last: tf.Tensor,
    stream: streaming.Stream,
    max_tokens: int,
    scorers: Sequence[scorers_lib.Scorer] = (),
) -> tuple[hypotheses.Hypotheses, token_times.TokenTimes]:
    """Returns the hypotheses so far; see decoders.py for logits, num_frames and scorers.

    Args:
        is_last: bool [batch], where what scorers add at the end counts.
        max_tokens: room of the state; tokens beyond it are lost.

    Returns:
        The hypotheses, and when their tokens were found, [batch, num_best, max_tokens] each.
    """
    state, width = stream.state, config.beam_width
    start = prefix_beam_search.first_beam(width, 1, logits.shape[-1] - 1, scorers)
    with tf.compat.v1.variable_scope("acoustic/beam"):
        beam = _take_beam(start, state)
        scale, skipped = state.take("scale", 0.0), state.take("skipped", False)
        frames = frames_lib.select(logits, num_frames, config.skipped_blank, config.candidates, skipped)
        beam, added, links = prefix_beam_search.search(frames, beam, scorers)
        _put_beam(beam, state)
        state.put("scale", scale + added)
        state.put("skipped", frames.ends_skipped)
        traced = prefix_beam_search.trace(beam.keys[..., 3], links)
        columns = traced.ids, *_find_times(frames, traced, stream.before)
        counts, columns = _append_tokens(state, traced, columns, [width, max_tokens])
    ranked = prefix_beam_search.rank(beam, scale + added, scorers, is_last)
    most = tf.maximum(1, tf.reduce_max(counts))
    ids, starts, probs = (tf.gather(each, ranked.places, batch_dims=1)[..., :most] for each in columns)
    is_possible = ranked.scores > -float("inf")
    counts = tf.where(is_possible, tf.gather(counts, ranked.places, batch_dims=1), 0)
    ids = tf.where(tf.sequence_mask(counts, most), ids, -1)
    found = hypotheses.Hypotheses(ids, counts, ranked.scores, ranked.acoustic_scores)
    return found, token_times.TokenTimes(starts, starts + 1, probs)


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


def _find_times(frames: frames_lib.Frames, traced: prefix_beam_search.Traced, before: tf.Tensor):
    """Returns the frame of the recording that added each token, and the highest probability of the token
    there and in the next frame: int32 and float32 [batch, width, max_added]; anything beyond the last.
    """
    places, last = tf.maximum(traced.frames, 0), tf.shape(frames.probs)[0] - 1
    rows = tf.broadcast_to(tf.range(tf.shape(places)[0])[:, None, None], tf.shape(places))
    positions = tf.gather(tf.transpose(frames.positions), places, batch_dims=1)
    probs = [
        tf.gather_nd(frames.probs, tf.stack([each, rows, tf.maximum(traced.ids, 0)], axis=-1))
        for each in (places, tf.minimum(places + 1, last))
    ]
    return before[:, None, None] + positions, tf.maximum(*probs)


def _append_tokens(state, traced, added, shape):
    """Appends what was added of each prefix, [batch, width, max_added] each, to what the state has of it.

    Returns:
        The numbers of tokens, int32 [batch, width], and the joined columns, [batch, width, max_tokens].
    """
    width, most = shape
    before = tf.gather(state.take("num_tokens", tf.zeros([width], tf.int32)), traced.roots, batch_dims=1)
    columns = []
    for name, each in zip(("ids", "starts", "probs"), added):
        old = tf.gather(state.take(name, tf.zeros(shape, each.dtype)), traced.roots, batch_dims=1)
        rows = (tf.reshape(part, [-1, tf.shape(part)[2]]) for part in (old, each))
        (first, second), numbers = rows, [tf.reshape(part, [-1]) for part in (before, traced.num_tokens)]
        joined, total = streaming.append(first, numbers[0], second, numbers[1])
        columns.append(tf.reshape(joined[:, :most], [-1, *shape]))
        state.put(name, columns[-1])
    counts = tf.minimum(tf.reshape(total, [-1, width]), most)
    state.put("num_tokens", counts)
    return counts, columns
