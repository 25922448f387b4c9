"""Ranks each utterance's transcripts in the graph, and describes the characters of the best one."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.search import token_times
from estimator_asr.experiment import config as config_lib

_LOWEST_PROB = 1e-6  # keeps the log odds finite


class RankedTranscripts(NamedTuple):
    """The transcripts of each utterance, best first."""

    rows: tf.Tensor  # int32 [batch], index of the best hypothesis among batch x num_best rows
    transcripts: tf.Tensor  # string [batch, num_best], padded with ""
    scores: tf.Tensor  # float32 [batch, num_best], padded with the lowest float32


def rank(scores: tf.Tensor, transcripts: tf.Tensor) -> RankedTranscripts:
    """Orders transcripts by the total probability of all hypotheses that have the same text.

    Args:
        scores: float32 [batch, num_best], log probability of each hypothesis; -inf or NaN if missing.
        transcripts: string [batch, num_best].
    """
    scores = tf.where(tf.math.is_nan(scores), -float("inf"), scores)
    is_same = tf.equal(transcripts[:, :, None], transcripts[:, None])  # [batch, num_best, num_best]
    num_best = tf.shape(scores)[1]
    terms = tf.where(is_same, scores[:, None], -float("inf"))
    # The best of several hypotheses with the same text represents all of them.
    leaders = tf.argmax(terms, axis=2, output_type=tf.int32)
    is_leader = tf.equal(leaders, tf.range(num_best))
    totals = tf.where(is_leader, tf.reduce_logsumexp(terms, axis=2), -float("inf"))
    totals, order = tf.math.top_k(totals, num_best)
    texts = tf.where(totals > -float("inf"), tf.gather(transcripts, order, batch_dims=1), "")
    # JSON has no infinity, so a server could not return -inf.
    scores = tf.maximum(totals, tf.float32.min)
    return RankedTranscripts(tf.range(tf.shape(scores)[0]) * num_best + order[:, 0], texts, scores)


def describe(
    characters: sequences.Sequences,
    spoken: sequences.Sequences,
    times: token_times.TokenTimes,
    config: config_lib.DecodeConfig,
    seconds: float,
) -> dict[str, tf.Tensor]:
    """Returns cascade.transcribe's outputs characters.* and confidence.

    Args:
        characters: written characters, one for each token in `spoken`, with the probability of each
            character given its token.
        spoken: tokens that the acoustic model recognised.
        times: times and probabilities of the tokens in `spoken`.
        config: contains the calibration settings.
        seconds: frame shift of `times` in seconds.
    """
    shape, counts = tf.shape(times.probs), characters.num_strings
    confidences = calibrate(times.probs * characters.probs[:, : shape[1]], config)
    confidences = tf.where(tf.sequence_mask(counts, shape[1]), confidences, 0.0)
    num_characters = tf.cast(tf.maximum(counts, 1), tf.float32)
    return {
        "characters.character": characters.strings[:, : shape[1]],
        "characters.pinyin": spoken.strings[:, : shape[1]],
        "characters.start": seconds * tf.cast(times.starts, tf.float32),
        "characters.end": seconds * tf.cast(times.ends, tf.float32),
        "characters.confidence": confidences,
        "confidence": tf.reduce_sum(confidences, axis=1) / num_characters,
    }


def calibrate(probs: tf.Tensor, config: config_lib.DecodeConfig) -> tf.Tensor:
    """Converts probabilities, float32 of any shape, to calibrated confidences (Platt 1999)."""
    probs = tf.clip_by_value(probs, _LOWEST_PROB, 1.0 - _LOWEST_PROB)
    log_odds = tf.math.log(probs) - tf.math.log1p(-probs)
    return tf.sigmoid(config.confidence_scale * log_odds + config.confidence_offset)


def merge(times: token_times.TokenTimes, num_tokens: tf.Tensor, places: tf.Tensor) -> token_times.TokenTimes:
    """Merges the times of initials and finals into the times of their syllables.

    Args:
        times: times of the tokens, [batch, max_tokens].
        num_tokens: int32 [batch].
        places: index of each token's syllable, int32 [batch, max_tokens], from sequences.join_initials.
    """
    is_token = tf.sequence_mask(num_tokens, tf.shape(places)[1])
    num_syllables = tf.reduce_max(tf.pad(tf.where(is_token, places + 1, 0), [[0, 0], [0, 1]]))
    belongs = is_token[..., None] & tf.equal(places[..., None], tf.range(num_syllables))
    first = tf.reduce_min(tf.where(belongs, times.starts[..., None], times.starts.dtype.max), axis=1)
    is_syllable = tf.reduce_any(belongs, axis=1)
    return token_times.TokenTimes(
        tf.where(is_syllable, first, 0),
        tf.reduce_max(tf.where(belongs, times.ends[..., None], 0), axis=1),
        tf.where(is_syllable, tf.reduce_min(tf.where(belongs, times.probs[..., None], 1.0), axis=1), 0.0),
    )
