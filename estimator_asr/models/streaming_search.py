"""CTC prefix beam search over a recording that arrives in pieces; the beam is kept in the stream's state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from estimator_asr.decoding.search import frames as frames_lib
from estimator_asr.decoding.search import hypotheses, prefix_beam_search, token_times, traces
from estimator_asr.decoding.search import scorers as scorers_lib
from estimator_asr.experiment import config as config_lib
from estimator_asr.models import streaming

# Probabilities are rounded to 1/100, so that the first of several nearly certain frames becomes the peak.
_STEPS = 100.0


class Tokens(NamedTuple):
    """The tokens of each prefix in the beam; values at or beyond num_tokens are arbitrary."""

    ids: tf.Tensor  # int32 [batch, width, max_tokens]
    peaks: tf.Tensor  # int32 [batch, width, max_tokens], the frame in which a token was most probable
    probs: tf.Tensor  # float32 [batch, width, max_tokens], probability of the token in that frame
    num_tokens: tf.Tensor  # int32 [batch, width]


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
        is_last: bool [batch], True if the recording ends here, in which case scorers also score the end.
        max_tokens: maximum number of tokens in the state; no stream needs more than its number of frames.

    Returns:
        The hypotheses, and for each token the frame in which it was most probable before the next token was
        added, [batch, num_best, max_tokens]. The frame in which the token itself was added would be wrong,
        because a prefix may be in the beam long before its last token is spoken.
    """
    state, width = stream.state, config.beam_width
    start = prefix_beam_search.first_beam(width, 1, logits.shape[-1] - 1, scorers)
    with tf.compat.v1.variable_scope("acoustic/beam"):
        beam = _take_beam(start, state)
        scale, skipped = state.take("scale", tf.constant(0.0, tf.float64)), state.take("skipped", False)
        frames = frames_lib.select(logits, num_frames, config.skipped_blank, config.candidates, skipped)
        beam, added, links = prefix_beam_search.search(frames, beam, scorers)
        _put_beam(beam, state)
        state.put("scale", scale + added)
        state.put("skipped", frames.ends_skipped)
        traced = traces.trace(beam.keys[..., 3], links)
        tokens = _take_tokens(state, traced.roots, [width, max_tokens])
        tokens = _append_tokens(*_find_peaks(frames, traced, tokens, stream.before), max_tokens)
        for name, value in tokens._asdict().items():
            state.put(name, value)
    ranked = prefix_beam_search.rank(beam, scale + added, scorers, is_last)
    ranked_tokens = Tokens(*(tf.gather(field, ranked.places, batch_dims=1) for field in tokens))
    counts = tf.where(ranked.scores > -float("inf"), ranked_tokens.num_tokens, 0)
    most = tf.maximum(1, tf.reduce_max(counts))
    is_token = tf.sequence_mask(counts, most)
    ids, peaks, probs = (field[..., :most] for field in ranked_tokens[:3])
    best = hypotheses.Hypotheses(tf.where(is_token, ids, -1), counts, ranked.scores, ranked.acoustic_scores)
    times = (tf.where(is_token, field, tf.zeros_like(field)) for field in (peaks, peaks + 1, probs))
    return best, token_times.TokenTimes(*times)


def _take_beam(start: prefix_beam_search.Beam, state: streaming.State) -> prefix_beam_search.Beam:
    """Returns the previous call's beam, with its nodes reset to the initial nodes of a search."""
    places = start.keys[0, :, 3]
    keys = state.take("keys", start.keys[0, :, :3])
    nodes = tf.broadcast_to(places, tf.shape(keys)[:2])
    return prefix_beam_search.Beam(
        state.take("blank_probs", start.blank_probs[0]),
        state.take("token_probs", start.token_probs[0]),
        tf.concat([keys, nodes[..., None]], axis=2),
        state.take("bonuses", start.bonuses[0]),
        tuple(state.take(f"scorer_{i}", states[0]) for i, states in enumerate(start.states)),
    )


def _put_beam(beam: prefix_beam_search.Beam, state: streaming.State) -> None:
    state.put("keys", beam.keys[..., :3])
    for name in ("blank_probs", "token_probs", "bonuses"):
        state.put(name, getattr(beam, name))
    for i, states in enumerate(beam.states):
        state.put(f"scorer_{i}", states)


def _take_tokens(state: streaming.State, roots: tf.Tensor, shape: list[int]) -> Tokens:
    """Returns the tokens of the prefixes that this call extends; roots are their places in the old beam."""
    starts = Tokens(
        tf.zeros(shape, tf.int32), tf.zeros(shape, tf.int32), tf.zeros(shape), tf.zeros(shape[:1], tf.int32)
    )
    fields = (state.take(name, start) for name, start in starts._asdict().items())
    return Tokens(*(tf.gather(field, roots, batch_dims=1) for field in fields))


def _find_peaks(
    frames: frames_lib.Frames, traced: traces.Traced, tokens: Tokens, before: tf.Tensor
) -> tuple[Tokens, Tokens]:
    """Returns the tokens from earlier calls, and the new tokens.

    The last token from earlier calls may have its peak in the new frames. A token's frames begin with the
    frame that added the token and end before the frame that added the next token.
    """
    is_last = tf.equal(tf.range(tf.shape(tokens.ids)[2]), tokens.num_tokens[..., None] - 1)
    last_ids = tf.reduce_sum(tf.where(is_last, tokens.ids, 0), axis=2, keepdims=True)
    ids = tf.concat([last_ids, tf.maximum(traced.ids, 0)], axis=2)  # [batch, width, 1 + max_added]
    num_searched = tf.shape(frames.probs)[0]
    begins = tf.pad(traced.frames, [[0, 0], [0, 0], [1, 0]])
    ends = tf.pad(traced.frames, [[0, 0], [0, 0], [0, 1]], constant_values=-1)
    ends = tf.where(ends < 0, num_searched, ends)
    places = tf.range(num_searched)
    is_own = (places >= begins[..., None]) & (places < ends[..., None])  # [..., num_searched]
    is_own &= tf.transpose(frames.stacked.is_real[..., 0])[:, None, None] > 0
    probs = tf.gather(tf.transpose(frames.probs, [1, 2, 0]), ids, batch_dims=1)
    steps = tf.where(is_own, tf.round(_STEPS * probs), -1.0)
    peaks = tf.argmax(steps, axis=3, output_type=tf.int32)
    peaks = before[:, None, None] + tf.gather(tf.transpose(frames.positions), peaks, batch_dims=1)
    probs = tf.reduce_max(tf.where(is_own, probs, 0.0), axis=3)
    is_higher = is_last & (tf.round(_STEPS * probs[..., :1]) > tf.round(_STEPS * tokens.probs))
    old = tokens._replace(
        peaks=tf.where(is_higher, peaks[..., :1], tokens.peaks),
        probs=tf.where(is_last, tf.maximum(probs[..., :1], tokens.probs), tokens.probs),
    )
    return old, Tokens(traced.ids, peaks[..., 1:], probs[..., 1:], traced.num_tokens)


def _append_tokens(old: Tokens, added: Tokens, max_tokens: int) -> Tokens:
    """Returns the old tokens followed by the added tokens, truncated to max_tokens."""
    width = old.ids.shape[1]
    numbers = [tf.reshape(tokens.num_tokens, [-1]) for tokens in (old, added)]
    columns = []
    for first, second in zip(old[:3], added[:3]):
        rows = (tf.reshape(field, [-1, tf.shape(field)[2]]) for field in (first, second))
        (before, after), (num_before, num_after) = rows, numbers
        joined, total = streaming.append(before, num_before, after, num_after)
        columns.append(tf.reshape(joined[:, :max_tokens], [-1, width, max_tokens]))
    return Tokens(*columns, tf.minimum(tf.reshape(total, [-1, width]), max_tokens))
