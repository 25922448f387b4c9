"""CTC for texts whose characters have several readings: finds their probabilities and best readings.

CTC's forward variables (Graves et al. 2006, section 4.1), one for each reading of each character, sum over
all ways to read a text. After the last frame, they give the probability of every prefix. So a text that is
longer than the speech, for example because it repeats itself, is cut to its most probable prefix.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.decoding.search import token_times

_LOWEST = -1e9  # log probability of impossible paths


class BestPrefixes(NamedTuple):
    """For each text, the prefix that matches the audio best, with the readings of its characters."""

    num_characters: tf.Tensor  # int32 [batch, num_texts]
    scores: tf.Tensor  # float32 [batch, num_texts], log probability
    ids: tf.Tensor  # int32 [batch, num_texts, max_characters], reading of each character, padded with -1


def find_best_prefixes(
    log_probs: tf.Tensor, num_frames: tf.Tensor, readings: tf.Tensor, num_characters: tf.Tensor
) -> BestPrefixes:
    """Finds, for each text, the prefix that matches the audio best, and the readings of its characters.

    Args:
        log_probs: CTC's log probabilities, float32 [batch, num_frames, num_classes]; the blank is last.
        num_frames: int32 [batch].
        readings: token ids, int32 [batch, num_texts, max_characters, max_readings], padded with -1.
        num_characters: int32 [batch, num_texts].
    """
    batch, num_texts, length, count = tf.unstack(tf.shape(readings))
    rows, shape = batch * num_texts, [batch, num_texts]
    frames, counts = tf.repeat(num_frames, num_texts), tf.reshape(num_characters, [-1])
    flat = tf.maximum(tf.reshape(readings, [batch, -1]), 0)
    emissions = tf.gather(log_probs, flat, axis=2, batch_dims=1)
    emissions = tf.reshape(emissions, [batch, -1, num_texts, length, count])
    emissions = tf.reshape(tf.transpose(emissions, [0, 2, 1, 3, 4]), [rows, -1, length, count])
    readings = tf.reshape(readings, [rows, length, count])
    blanks = tf.repeat(log_probs[..., -1], num_texts, axis=0)
    is_reading = readings[:, None] >= 0  # [rows, 1, max_characters, max_readings]
    emissions = tf.where(is_reading, emissions, _LOWEST)
    totals = _score_prefixes(emissions, blanks, frames, readings)
    totals = tf.where(tf.sequence_mask(counts + 1, length + 1), totals, _LOWEST)
    prefix_lengths = tf.argmax(totals, axis=1, output_type=tf.int32)
    ids = _read(emissions, blanks[..., None], frames, readings, prefix_lengths)
    scores = tf.reshape(tf.reduce_max(totals, axis=1), shape)
    return BestPrefixes(tf.reshape(prefix_lengths, shape), scores, tf.reshape(ids, [*shape, length]))


def _read(emissions, blanks, num_frames, readings, prefix_lengths):
    """Returns each character's most probable reading in the character's first frame, int32 [rows, length]."""
    length = tf.shape(readings)[1]
    log_probs = tf.concat([tf.reduce_max(emissions, axis=3), blanks], axis=2)
    places = tf.tile(tf.range(length)[None], [tf.shape(readings)[0], 1])
    starts = token_times.align(log_probs, num_frames, places, prefix_lengths).starts
    by_character = tf.gather(tf.transpose(emissions, [0, 2, 1, 3]), starts, axis=2, batch_dims=2)
    ids = tf.gather(readings, tf.argmax(by_character, axis=2, output_type=tf.int32), batch_dims=2)
    return tf.where(tf.sequence_mask(prefix_lengths, length), ids, -1)


def _score_prefixes(emissions, blanks, num_frames, readings):
    """Returns the log probabilities of prefixes of 0, 1, ... characters, float32 [rows, length + 1]."""
    emissions, blanks = tf.transpose(emissions, [1, 0, 2, 3]), tf.transpose(blanks)[..., None]
    # A reading cannot follow the same reading of the previous character unless a blank separates them.
    before = tf.pad(readings[:, :-1], [[0, 0], [1, 0], [0, 0]], constant_values=-1)
    may_follow = tf.not_equal(readings[..., None], before[:, :, None])
    # Paths end with a reading of the prefix's last character (with_token) or with a blank (with_blank). At
    # first, only the empty prefix is possible.
    with_token = tf.fill(tf.shape(readings), _LOWEST)
    start = with_token, tf.pad(with_token[..., 0], [[0, 0], [1, 0]], constant_values=0.0)

    def step(i, with_token, with_blank):
        previous = tf.pad(with_token[:, :-1], [[0, 0], [1, 0], [0, 0]], constant_values=_LOWEST)
        previous = tf.reduce_logsumexp(tf.where(may_follow, previous[:, :, None], _LOWEST), axis=3)
        after_blank = tf.tile(with_blank[:, :-1, None], [1, 1, tf.shape(with_token)[2]])
        next_token = tf.reduce_logsumexp(tf.stack([with_token, after_blank, previous]), axis=0) + emissions[i]
        next_blank = tf.reduce_logsumexp(tf.stack([with_blank, _any(with_token)]), axis=0) + blanks[i]
        is_frame = i < num_frames[:, None]
        with_token = tf.where(is_frame[..., None], next_token, with_token)
        return i + 1, with_token, tf.where(is_frame, next_blank, with_blank)

    _, with_token, with_blank = tf.while_loop(lambda i, *_: i < tf.shape(emissions)[0], step, (0, *start))
    return tf.reduce_logsumexp(tf.stack([_any(with_token), with_blank]), axis=0)


def _any(with_token):
    """Sums the probabilities of the last character's readings; returns logs, float32 [rows, length + 1]."""
    return tf.pad(tf.reduce_logsumexp(with_token, axis=2), [[0, 0], [1, 0]], constant_values=_LOWEST)
