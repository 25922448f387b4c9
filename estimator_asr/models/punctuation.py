"""Punctuation model: a Transformer encoder (token_encoder.py) that finds the mark after each character."""

from __future__ import annotations

import math
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import layers, token_encoder

NUM_MARKS = 8  # length of marks.MARKS in tfrecord_builder, whose first entry stands for no mark
# A mark is written if the probability of no mark is below this. Several marks often share the rest, so the
# most probable class would too rarely be a mark for the best F1 (docs/experiments/punctuation.md).
_LEAST_NO_MARK = 0.6


def build(
    config: config_lib.PunctuationConfig,
    character_ids: tf.Tensor,
    num_characters: tf.Tensor,
    *,
    vocabulary_size: int,
    seed: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """Scores the marks after each character. All variables are in the scope "punctuation".

    Positions are rotary, so a text may be longer than the texts that the model was trained on.

    Args:
        character_ids: int32 [batch, length].
        num_characters: int32 [batch], number of real characters; later characters are ignored.
        vocabulary_size: number of characters in the vocabulary.
        seed: int64 [2], random seed of the batch in training; if None, nothing is dropped.

    Returns:
        Logits, float32 [batch, length, NUM_MARKS]; the classes are the ids of the marks.
    """
    mask = layers.sequence_mask(num_characters, tf.shape(character_ids)[1])
    if seed is not None:
        character_ids = token_encoder.replace_some(character_ids, config.unknown_rate, seed, 0, 1)
    with tf.compat.v1.variable_scope("punctuation"):
        outputs = token_encoder.encode(
            _embed(config, character_ids, mask, vocabulary_size, seed),
            mask,
            num_layers=config.layers,
            num_heads=config.heads,
            inner_units=config.inner_units,
            dropout=config.dropout,
            seed=seed,
            rotary=True,
        )
        return layers.dense(outputs, NUM_MARKS, "output")


def choose(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses the mark after each character, given the logits that build returns.

    Returns:
        Ids of the marks, int32 [batch, length], and their probabilities, float32 [batch, length].
    """
    ids = tf.argmax(score(logits), axis=-1, output_type=tf.int32)
    return ids, tf.gather(tf.nn.softmax(logits), ids, axis=2, batch_dims=2)


def score(logits: tf.Tensor) -> tf.Tensor:
    """Returns scores of the marks, float32 shaped like `logits`; the mark with the highest score is written.

    The score of no mark is the best mark's score plus the log odds of no mark, minus the log odds of
    _LEAST_NO_MARK. So adding a value to the scores of all marks adds it to the log odds of a mark.
    """
    log_probs = tf.nn.log_softmax(logits)
    no_mark, others = log_probs[..., :1], log_probs[..., 1:]
    log_odds = no_mark - tf.reduce_logsumexp(others, axis=-1, keepdims=True)
    least = math.log(_LEAST_NO_MARK / (1 - _LEAST_NO_MARK))
    return tf.concat([tf.reduce_max(others, axis=-1, keepdims=True) + log_odds - least, others], axis=-1)


def _embed(config, character_ids, mask, vocabulary_size, seed):
    table = token_encoder.get_table("characters", [vocabulary_size, config.units])
    ngrams = token_encoder.NgramTable(config.ngram_rows, config.ngram_units, config.ngram_dropout)
    embedded = tf.gather(table, character_ids) * config.units**0.5  # Vaswani et al., 2017, section 3.4
    # Most n-grams are rare, and Adam changes a row by about the learning rate each time that it occurs. The
    # scale makes these small changes matter (docs/experiments/punctuation.md).
    vectors = token_encoder.embed_ngrams(ngrams, character_ids, mask, vocabulary_size, config.units, seed)
    return layers.dropout(embedded + config.ngram_scale * vectors, config.dropout, seed)
