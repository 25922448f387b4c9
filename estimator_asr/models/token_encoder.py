"""Encoder for sequences of ids, shared by the language model and the punctuation model.

An id's embedding is the sum of its own vector and the vectors of the n-grams around the id. The n-grams are
hashed into one table. Word-sized contexts can simply be looked up in this table, so the pre-norm Transformer
encoder that follows can stay small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.models import attention, layers

# The first and last id of each n-gram, as offsets from the current id.
_WINDOWS = ((-1, 0), (0, 1), (-1, 1), (-2, 0), (0, 2))


class NgramTable(NamedTuple):
    """The shape of the table of hashed n-grams, and the fraction of n-grams dropped in training."""

    rows: int
    units: int
    dropout: float


def embed_ngrams(
    table: NgramTable,
    ids: tf.Tensor,
    mask: tf.Tensor,
    vocabulary_size: int,
    units: int,
    seed: Optional[tf.Tensor],
) -> tf.Tensor:
    """Returns the sum of the vectors of the n-grams around each id, float32 [batch, length, units].

    The ids are int32 [batch, length]; for `mask` see hash_ngrams, for `seed` layers.dropout.
    """
    rows = hash_ngrams(ids, mask, vocabulary_size, table.rows)
    # The table starts at zero, so that n-grams have no effect before they are trained.
    vectors = layers.get_bias("ngrams", [table.rows, table.units])
    weights = layers.dropout(tf.ones(tf.shape(rows)), table.dropout, seed)
    # Each weight drops or scales the whole vector of an n-gram.
    embedded = tf.reduce_sum(tf.gather(vectors, rows) * tf.expand_dims(weights, 3), axis=2)
    return layers.dense(embedded, units, "ngram_projection", use_bias=False)


def hash_ngrams(token_ids: tf.Tensor, mask: tf.Tensor, vocabulary_size: int, num_rows: int) -> tf.Tensor:
    """Returns the table rows of the n-grams around each position, int64 [batch, length, num_windows].

    Padding (where the mask, float32 [batch, length], is 0) is hashed like positions before the first or after
    the last token. Collisions are rarest if num_rows is prime.
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


def encode(
    inputs: tf.Tensor,
    mask: tf.Tensor,
    *,
    num_layers: int,
    num_heads: int,
    inner_units: int,
    dropout: float,
    seed: Optional[tf.Tensor],
    rotary: bool = False,
) -> tf.Tensor:
    """Returns the Transformer's outputs, shaped like inputs; `mask` is float32 [batch, length].

    See attention.self_attention for `rotary`, layers.feed_forward for inner_units, layers.dropout for `seed`.
    """
    hidden = inputs
    for index in range(num_layers):
        with tf.compat.v1.variable_scope(f"layer_{index}"):
            normed = layers.layer_norm(hidden, "attention_norm")
            attended = attention.self_attention(normed, mask, num_heads, rotary)
            hidden += tf.cast(layers.dropout(attended, dropout, seed), hidden.dtype)
            normed = layers.layer_norm(hidden, "feed_forward_norm")
            module = layers.feed_forward(normed, inner_units, 0.0, seed)
            hidden += tf.cast(layers.dropout(module, dropout, seed), hidden.dtype)
    return layers.layer_norm(hidden, "final_norm")


def get_table(name: str, shape: Sequence[int]) -> tf.Variable:
    """Returns an embedding table [rows, units], initialised with normal values of variance 1 / units."""
    initializer = tf.compat.v1.random_normal_initializer(stddev=shape[1] ** -0.5)
    return tf.compat.v1.get_variable(name, shape, initializer=initializer)


def replace_some(ids: tf.Tensor, rate: float, seed: tf.Tensor, low: int, high: int) -> tf.Tensor:
    """Replaces a fraction of the ids with random ids from `low` to `high` - 1, for training."""
    draws, others = (layers.uniform(tf.shape(ids), seed) for _ in range(2))
    others = low + tf.cast(others * (high - low), tf.int32)
    return tf.where(draws < rate, others, ids)
