"""Language model: a Transformer encoder (token_encoder.py) that converts each token to one character.

A token's embedding also contains the vectors of its parts (initial, final, tone). Only the candidates for
each token are scored (see candidates.py).
"""

from __future__ import annotations

from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.decoding.search import candidates
from estimator_asr.experiment import config as config_lib
from estimator_asr.models import attention, layers, token_encoder


def build(
    config: config_lib.LanguageConfig,
    token_ids: tf.Tensor,
    num_tokens: tf.Tensor,
    *,
    token_vocabulary_size: int,
    character_vocabulary_size: int,
    character_mask: np.ndarray,
    token_parts: Optional[np.ndarray] = None,
    seed: Optional[tf.Tensor] = None,
    fixed_shapes: bool = False,
) -> candidates.ScoredPairs:
    """Scores the candidates for each token. All variables are in the scope "language".

    Args:
        token_ids: int32 [batch, length].
        num_tokens: int32 [batch], number of real tokens; later tokens are ignored.
        character_mask: bool [tokens, characters], True where the character is a candidate for the token.
        token_parts: float32 [tokens, num_parts] from syllables.part_matrix; None if the tokens have no parts.
        seed: int64 [2], random seed of the batch in training; if None, dropout and token noise are off.
        fixed_shapes: whether to pad the candidates, so that XLA rarely sees a new number of candidates.

    Returns:
        The scored candidates at all positions; if token noise replaces a token, those of the new token.
    """
    mask = layers.sequence_mask(num_tokens, tf.shape(token_ids)[1])  # [batch, length]
    if seed is not None and config.token_noise and token_vocabulary_size > 1:
        # Random known tokens imitate the errors of an acoustic model.
        token_ids = token_encoder.replace_some(token_ids, config.token_noise, seed, 1, token_vocabulary_size)
    with tf.compat.v1.variable_scope("language"):
        inputs = _embed(config, token_ids, mask, token_vocabulary_size, token_parts, seed)
        outputs = _encode(config, inputs, mask, seed)  # [batch, length, units]
        pairs = candidates.list_pairs(token_ids, num_tokens, character_mask, fixed_shapes)
        num_readings = int(np.count_nonzero(character_mask))
        logits = _score(outputs, pairs, character_vocabulary_size, num_readings)
    return candidates.ScoredPairs(logits, pairs.positions, pairs.characters, tf.shape(token_ids))


def build_best(
    config: config_lib.LanguageConfig,
    token_ids: tf.Tensor,
    num_tokens: tf.Tensor,
    *,
    character_mask: np.ndarray,
    token_parts: Optional[np.ndarray],
    count: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns each token's `count` most probable candidates, best first; uses no ragged operations.

    The variables and the other arguments are the same as in build.

    Returns:
        Characters, int32, and log probabilities, float32, both [batch, length, count]. If a token has fewer
        candidates, the remaining entries are character 0 with log probability MASKED_SCORE.
    """
    num_known, num_characters = character_mask.shape
    mask = layers.sequence_mask(num_tokens, tf.shape(token_ids)[1])
    with tf.compat.v1.variable_scope("language"):
        outputs = _encode(config, _embed(config, token_ids, mask, num_known, token_parts, None), mask, None)
        table = token_encoder.get_table("characters", [num_characters, outputs.shape[-1]])
        bias = layers.get_bias("reading_bias", [int(np.count_nonzero(character_mask))])
    products = layers.linear(outputs, tf.transpose(table), None)  # [batch, length, num_characters]
    characters, readings = candidates.pad_readings(character_mask, count)
    known = tf.gather(characters, token_ids)
    logits = tf.gather(products, tf.maximum(known, 0), axis=2, batch_dims=2)
    logits += tf.gather(bias, tf.gather(readings, token_ids))
    best = _find_best(tf.where(known >= 0, logits, layers.MASKED_SCORE), count)
    best = tf.maximum(tf.gather(known, best[0], axis=2, batch_dims=2), 0), best[1]
    # The biases of <unk>'s candidates come first, because <unk> is token 0.
    first = np.cumsum(character_mask[0]) - 1
    unknown = products + tf.gather(bias, np.maximum(first, 0).astype(np.int32))
    best_unknown = _find_best(tf.where(character_mask[0], unknown, layers.MASKED_SCORE), count)
    is_unknown = tf.expand_dims(tf.equal(token_ids, 0), 2)
    return tuple(tf.where(is_unknown, *pair) for pair in zip(best_unknown, best))


def _find_best(logits, count):
    """Returns indices and log probabilities of the `count` highest logits along the last axis."""
    log_probs, places = tf.math.top_k(tf.maximum(tf.nn.log_softmax(logits), layers.MASKED_SCORE), count)
    return places, log_probs


def _embed(config, token_ids, mask, vocabulary_size, token_parts, seed):
    units = config.language_units
    table = token_encoder.get_table("tokens", [vocabulary_size, units])
    if token_parts is not None:
        parts = token_encoder.get_table("token_parts", [token_parts.shape[1], units])
        table = table + tf.matmul(tf.constant(token_parts), parts)
    embedded = tf.gather(table, token_ids) * units**0.5  # Vaswani et al., 2017, section 3.4
    if config.ngram_rows:
        ngrams = token_encoder.NgramTable(config.ngram_rows, config.ngram_units, config.ngram_dropout)
        embedded += token_encoder.embed_ngrams(ngrams, token_ids, mask, vocabulary_size, units, seed)
    return layers.dropout(attention.add_positions(embedded), config.language_dropout, seed)


def _encode(config, inputs, mask, seed):
    return token_encoder.encode(
        inputs,
        mask,
        num_layers=config.language_layers,
        num_heads=config.language_heads,
        inner_units=config.language_inner_units,
        dropout=config.language_dropout,
        seed=seed,
    )


def _score(outputs, pairs, num_characters, num_readings):
    """Returns logits, float32 [num_pairs]: outputs x character vectors + a bias per (token, character)."""
    units = outputs.shape[-1]
    table = token_encoder.get_table("characters", [num_characters, units])
    bias = layers.get_bias("reading_bias", [num_readings])
    positions = tf.gather(tf.reshape(outputs, [-1, units]), pairs.positions)  # [num_pairs, units]
    products = tf.reduce_sum(positions * tf.gather(table, tf.maximum(pairs.characters, 0)), axis=-1)
    return tf.where(pairs.characters >= 0, products + tf.gather(bias, pairs.readings), layers.MASKED_SCORE)
