"""Language model: a Transformer encoder that converts each token to one character.

A token's embedding is the sum of its own vector, the vectors of its parts (initial, final, tone) and the
vectors of the n-grams around the token. The n-grams are hashed into one table. Word-sized contexts can simply
be looked up in this table, so the pre-norm encoder can stay small. Only the candidates for each token are
scored (see candidates.py).
"""

from __future__ import annotations

from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.decoding.search import candidates
from estimator_asr.experiment import config as config_lib
from estimator_asr.models import attention, layers

# The first and last token of each n-gram, as offsets from the current token.
_WINDOWS = ((-1, 0), (0, 1), (-1, 1), (-2, 0), (0, 2))


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
        The scored candidates at all positions. If token noise replaces a token, the candidates belong to
        the replacement.
    """
    mask = layers.sequence_mask(num_tokens, tf.shape(token_ids)[1])  # [batch, length]
    if seed is not None:
        token_ids = _swap_tokens(token_ids, config.token_noise, token_vocabulary_size, seed)
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
        table = _get_table("characters", [num_characters, outputs.shape[-1]])
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


def _swap_tokens(token_ids, rate, vocabulary_size, seed):
    """Replaces a fraction of the tokens with random known tokens, to imitate acoustic model errors."""
    if not rate or vocabulary_size < 2:
        return token_ids
    draws, others = (layers.uniform(tf.shape(token_ids), seed) for _ in range(2))
    others = 1 + tf.cast(others * (vocabulary_size - 1), tf.int32)
    return tf.where(draws < rate, others, token_ids)


def _embed(config, token_ids, mask, vocabulary_size, token_parts, seed):
    table = _get_table("tokens", [vocabulary_size, config.language_units])
    if token_parts is not None:
        parts = _get_table("token_parts", [token_parts.shape[1], config.language_units])
        table = table + tf.matmul(tf.constant(token_parts), parts)
    embedded = tf.gather(table, token_ids) * config.language_units**0.5  # Vaswani et al., 2017, section 3.4
    if config.ngram_rows:
        embedded += _embed_ngrams(config, token_ids, mask, vocabulary_size, seed)
    return layers.dropout(attention.add_positions(embedded), config.language_dropout, seed)


def _embed_ngrams(config, token_ids, mask, vocabulary_size, seed):
    rows = hash_ngrams(token_ids, mask, vocabulary_size, config.ngram_rows)
    # The table starts at zero, so that n-grams have no effect before they are trained.
    table = layers.get_bias("ngrams", [config.ngram_rows, config.ngram_units])
    weights = layers.dropout(tf.ones(tf.shape(rows)), config.ngram_dropout, seed)
    # Each weight drops or scales the whole vector of an n-gram.
    embedded = tf.reduce_sum(tf.gather(table, rows) * tf.expand_dims(weights, 3), axis=2)
    return layers.dense(embedded, config.language_units, "ngram_projection", use_bias=False)


def hash_ngrams(token_ids: tf.Tensor, mask: tf.Tensor, vocabulary_size: int, num_rows: int) -> tf.Tensor:
    """Returns the table rows of the n-grams around each position, int64 [batch, length, num_windows].

    Padding (where the mask, float32 [batch, length], is 0) is hashed like positions beyond the ends of the
    tokens. Collisions are rarest if num_rows is prime.
    """
    length = tf.shape(token_ids)[1]
    reach = max(abs(offset) for window in _WINDOWS for offset in window)
    digits = (tf.cast(token_ids, tf.int64) + 1) * tf.cast(mask, tf.int64)  # 0 stands for no token
    digits = tf.pad(digits, [[0, 0], [reach, reach]])
    rows = []
    for kind, (first, last) in enumerate(_WINDOWS):
        number = tf.constant(kind, tf.int64)  # the first digit; tokens follow in base vocabulary_size + 1
        for offset in range(first, last + 1):
            number = number * (vocabulary_size + 1) + digits[:, reach + offset : reach + offset + length]
        rows.append(tf.math.floormod(number, num_rows))
    return tf.stack(rows, axis=-1)


def _encode(config, inputs, mask, seed):
    hidden = inputs
    for index in range(config.language_layers):
        with tf.compat.v1.variable_scope(f"layer_{index}"):
            normed = layers.layer_norm(hidden, "attention_norm")
            attended = attention.self_attention(normed, mask, config.language_heads)
            hidden += tf.cast(layers.dropout(attended, config.language_dropout, seed), hidden.dtype)
            normed = layers.layer_norm(hidden, "feed_forward_norm")
            module = layers.feed_forward(normed, config.language_inner_units, 0.0, seed)
            hidden += tf.cast(layers.dropout(module, config.language_dropout, seed), hidden.dtype)
    return layers.layer_norm(hidden, "final_norm")


def _score(outputs, pairs, num_characters, num_readings):
    """Returns logits, float32 [num_pairs]: outputs x character vectors + a bias per (token, character)."""
    units = outputs.shape[-1]
    table = _get_table("characters", [num_characters, units])
    bias = layers.get_bias("reading_bias", [num_readings])
    positions = tf.gather(tf.reshape(outputs, [-1, units]), pairs.positions)  # [num_pairs, units]
    products = tf.reduce_sum(positions * tf.gather(table, tf.maximum(pairs.characters, 0)), axis=-1)
    return tf.where(pairs.characters >= 0, products + tf.gather(bias, pairs.readings), layers.MASKED_SCORE)


def _get_table(name, shape):
    """Returns an embedding table [rows, units], initialised with normal values of variance 1 / units."""
    initializer = tf.compat.v1.random_normal_initializer(stddev=shape[1] ** -0.5)
    return tf.compat.v1.get_variable(name, shape, initializer=initializer)
