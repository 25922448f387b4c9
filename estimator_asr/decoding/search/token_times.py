"""Forced alignment in TensorFlow: finds when each token was spoken, from CTC's best path (Viterbi)."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

_LOWEST = -1e9  # log probability of impossible paths


class TokenTimes(NamedTuple):
    """The frames in which the tokens of a batch are emitted; all fields are padded with 0."""

    starts: tf.Tensor  # int32 [batch, max_tokens], first frame
    ends: tf.Tensor  # int32 [batch, max_tokens], frame after the last one
    probs: tf.Tensor  # float32 [batch, max_tokens], highest probability of the token in its frames


class Alignment(NamedTuple):
    """The times of a batch's tokens, and how well the tokens explain the audio."""

    times: TokenTimes
    # float32 [batch, max_tokens], at most 0: the log probability of the aligned path minus that of the best
    # path for any tokens, summed over the frames from the previous token's end to the token's end (for the
    # last token, to the utterance's end). Speech without a token lowers the score of the token after it.
    scores: tf.Tensor


def align(log_probs: tf.Tensor, num_frames: tf.Tensor, ids: tf.Tensor, num_tokens: tf.Tensor) -> TokenTimes:
    """Aligns tokens with frames; see align_and_score."""
    return align_and_score(log_probs, num_frames, ids, num_tokens).times


def align_and_score(
    log_probs: tf.Tensor, num_frames: tf.Tensor, ids: tf.Tensor, num_tokens: tf.Tensor
) -> Alignment:
    """Aligns tokens with frames; the states are those of Graves et al. (2006), section 4.1.

    The shapes are: log_probs, float32 [batch, num_frames, num_classes], in which the blank is the last class;
    ids, int32 [batch, max_tokens]; num_frames and num_tokens, int32 [batch]. losses.has_alignment must be
    true for each utterance.
    """
    states = _list_states(ids, num_tokens, tf.shape(log_probs)[-1] - 1)  # [batch, num_states]
    emissions = tf.gather(log_probs, states, axis=2, batch_dims=1)  # [batch, num_frames, num_states]
    is_frame = tf.sequence_mask(num_frames, tf.shape(log_probs)[1])
    path = _trace(*_search(tf.where(is_frame[..., None], emissions, 0.0), states, num_frames), 2 * num_tokens)
    labels = 2 * tf.range(tf.shape(ids)[1]) + 1
    is_emitted = is_frame[..., None] & tf.equal(path[..., None], labels)  # [batch, num_frames, max_tokens]
    frames = tf.range(tf.shape(path)[1])[None, :, None]
    times = TokenTimes(
        tf.reduce_min(tf.where(is_emitted, frames, frames.dtype.max), axis=1),
        tf.reduce_max(tf.where(is_emitted, frames + 1, 0), axis=1),
        tf.exp(tf.reduce_max(tf.where(is_emitted, emissions[..., 1::2], _LOWEST), axis=1)),
    )
    lost = tf.gather(emissions, path, axis=2, batch_dims=2) - tf.reduce_max(log_probs, axis=2)
    owners = tf.minimum(path // 2, num_tokens[:, None] - 1)  # the token to which each frame's loss belongs
    is_owned = is_frame[..., None] & tf.equal(owners[..., None], labels // 2)
    scores = tf.reduce_sum(tf.where(is_owned, lost[..., None], 0.0), axis=1)
    is_token = tf.sequence_mask(num_tokens, tf.shape(ids)[1])
    *times, scores = (tf.where(is_token, values, tf.zeros_like(values)) for values in (*times, scores))
    return Alignment(TokenTimes(*times), scores)


def _list_states(ids, num_tokens, blank_id):
    """Returns the states, int32 [batch, 2 x max_tokens + 1]: blank, token, blank, ..., token, blank."""
    ids = tf.where(tf.sequence_mask(num_tokens, tf.shape(ids)[1]), ids, blank_id)
    pairs = tf.stack([tf.fill(tf.shape(ids), blank_id), ids], axis=2)
    pairs = tf.reshape(pairs, [tf.shape(ids)[0], 2 * tf.shape(ids)[1]])
    return tf.pad(pairs, [[0, 0], [0, 1]], constant_values=blank_id)


def _search(emissions, states, num_frames):
    """Returns the moves (0 to 2 states) of the best path to each state, and the score of this path.

    The moves are int32 [num_frames, batch, num_states], the scores float32 [batch, num_states].
    """
    # A path may skip a blank if the tokens on both sides differ.
    may_skip = tf.pad(tf.not_equal(states[:, 2:], states[:, :-2]), [[0, 0], [2, 0]])[:, : tf.shape(states)[1]]
    by_frame = tf.transpose(emissions, [1, 0, 2])
    length = tf.shape(by_frame)[0]
    start = tf.fill(tf.shape(states), _LOWEST) * tf.cast(tf.range(tf.shape(states)[1]) > 0, tf.float32)
    history = tf.TensorArray(tf.int32, length, element_shape=states.shape)

    def step(i, scores, history):
        padded = tf.pad(scores, [[0, 0], [2, 0]], constant_values=_LOWEST)
        by_move = tf.stack([scores, padded[:, 1:-1], tf.where(may_skip, padded[:, :-2], _LOWEST)])
        is_frame = i < num_frames[:, None]
        moves = tf.where(is_frame, tf.argmax(by_move, output_type=tf.int32), 0)
        scores = tf.where(is_frame, tf.reduce_max(by_move, axis=0) + by_frame[i], scores)
        return i + 1, scores, history.write(i, moves)

    _, scores, history = tf.while_loop(lambda i, *_: i < length, step, (0, start, history))
    return history.stack(), scores


def _trace(moves, scores, last):
    """Returns the best path that ends in the state `last` or `last` - 1, int32 [batch, num_frames]."""
    ends = tf.stack([last, tf.maximum(last - 1, 0)], axis=1)
    better = tf.argmax(tf.gather(scores, ends, batch_dims=1), axis=1, output_type=tf.int32)
    length = tf.shape(moves)[0]
    path = tf.TensorArray(tf.int32, length, element_shape=last.shape)

    def step(i, state, path):
        path = path.write(i, state)
        return i - 1, state - tf.gather(moves[i], state, batch_dims=1), path

    start = (length - 1, last - better, path)
    *_, path = tf.while_loop(lambda i, *_: i >= 0, step, start)
    return tf.transpose(path.stack())
