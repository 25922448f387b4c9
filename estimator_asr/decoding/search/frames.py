"""Selects frames for beam search (almost certain blanks are skipped) and their best tokens."""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf


class Frame(NamedTuple):
    """The input for one search step; the fields of Frames.stacked have an extra first axis, num_searched."""

    token_probs: tf.Tensor  # float32 [batch, num_candidates], probabilities of the best tokens
    token_ids: tf.Tensor  # int64 [batch, num_candidates]
    blank_probs: tf.Tensor  # float32 [batch, 1]
    follow_token: tf.Tensor  # float32 [batch, 1], 0 if the previous frame was skipped, otherwise 1
    is_real: tf.Tensor  # float32 [batch, 1], 0 beyond the last frame of an utterance, otherwise 1


class Frames(NamedTuple):
    """The frames to search in each utterance, in order.

    Frames beyond an utterance's last one have a blank probability of 1, so they change nothing.
    """

    probs: tf.Tensor  # float32 [num_searched, batch, num_classes]; arbitrary if is_real is 0
    stacked: Frame
    positions: tf.Tensor  # int32 [num_searched, batch], frame index in the logits; arbitrary if is_real is 0
    skipped_score: tf.Tensor  # float32 [batch], total log probability of the blanks in skipped frames
    ends_skipped: tf.Tensor  # bool [batch], True if the last frame was skipped


def select(
    logits: tf.Tensor,
    num_frames: tf.Tensor,
    skipped_blank: float,
    num_candidates: int,
    follows_skipped: Optional[tf.Tensor] = None,
) -> Frames:
    """Returns the frames to search; decoders.py describes logits and num_frames.

    A frame is skipped if the probability of the blank, the last class, is above `skipped_blank` (1 skips no
    frame). Only the `num_candidates` best tokens of a frame may extend a prefix. `follows_skipped` is
    ends_skipped from the previous call, or None in the first call.
    """
    probs = tf.nn.softmax(tf.cast(logits, tf.float32))  # [batch, num_frames, num_classes]
    blank, is_frame = probs[..., -1], tf.sequence_mask(num_frames, tf.shape(logits)[1])
    is_skipped = is_frame & (blank > skipped_blank)
    positions, counts = _list_true(is_frame & ~is_skipped)
    is_searched = tf.transpose(tf.sequence_mask(counts, tf.shape(positions)[1]))  # [num_searched, batch]
    probs = tf.transpose(tf.gather(probs, positions, batch_dims=1), [1, 0, 2])
    num_candidates = min(num_candidates, logits.shape[-1] - 1)
    token_probs, token_ids = tf.math.top_k(probs[..., :-1], num_candidates)
    is_real = is_searched[..., None]
    positions = tf.transpose(positions)
    last = tf.fill(tf.shape(num_frames), -1)  # previous call's last searched frame, relative to this call
    if follows_skipped is not None:
        last -= tf.cast(follows_skipped, tf.int32)
    before = tf.concat([last[None], positions[:-1]], axis=0)
    follow_token = 1.0 - tf.cast(is_searched & (positions > before + 1), tf.float32)
    stacked = Frame(
        tf.where(is_real, token_probs, 0.0),
        tf.cast(token_ids, tf.int64),
        tf.where(is_real, probs[..., -1:], 1.0),
        follow_token[..., None],
        tf.cast(is_real, tf.float32),
    )
    skipped_score = tf.reduce_sum(tf.where(is_skipped, tf.math.log(blank), 0.0), axis=1)
    is_last = tf.equal(tf.range(tf.shape(logits)[1]), num_frames[:, None] - 1)
    ends_skipped = tf.reduce_any(is_skipped & is_last, axis=1)
    if follows_skipped is not None:
        ends_skipped |= follows_skipped & tf.equal(num_frames, 0)
    return Frames(probs, stacked, positions, skipped_score, ends_skipped)


def _list_true(mask):
    """Returns the positions of each row's true values, int32, padded arbitrarily, and how many there are."""
    counts = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    length = tf.shape(mask)[1]
    # True values get larger keys than false values, and earlier true values get larger keys than later ones.
    keys = tf.where(mask, 2 * length, length) - tf.range(length)
    most = tf.maximum(tf.reduce_max(counts), 1)  # the search needs a frame, or it has no links to stack
    return tf.math.top_k(keys, most).indices, counts
