"""Byte-pair encoding (Sennrich et al. 2016, section 3.2) of characters, as TensorFlow operations.

Merging starts with whole characters: Whisper's vocabulary has no token that begins or ends within a hanzi and
reaches into another one.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_asr.models import whisper_decoder

_NEVER = np.iinfo(np.int32).max  # rank of a pair that is not merged


def encode(decoder: whisper_decoder.DecoderArrays, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the tokens of characters, int32 [rows, max_characters] with -1 where there is none.

    Returns:
        int32 [rows, max_tokens], -1 at and beyond the second: int32 [rows].
    """
    symbols = _merge(decoder, tf.pad(_squeeze(characters)[0], [[0, 0], [0, 2]], constant_values=-1))
    pieces = tf.gather(decoder.spellings, tf.maximum(symbols, 0))
    pieces = tf.where(symbols[..., None] >= 0, pieces, -1)
    return _squeeze(tf.reshape(pieces, [tf.shape(symbols)[0], -1]))


def _squeeze(ids):
    """Moves ids that are not -1 to the front; returns them and their number."""
    ragged = tf.ragged.boolean_mask(ids, ids >= 0)
    return ragged.to_tensor(-1), tf.cast(ragged.row_lengths(), tf.int32)


def _merge(decoder, symbols):
    """Merges in each row the pair of the lowest rank, the first of several, until none is left."""
    pairs, num_symbols = tf.constant(decoder.merged_pairs), len(decoder.spellings)

    def find(symbols):
        left, right = (tf.cast(each, tf.int64) for each in (symbols[:, :-1], symbols[:, 1:]))
        wanted = left * num_symbols + right
        places = tf.searchsorted(pairs, tf.reshape(wanted, [-1]))
        places = tf.reshape(tf.minimum(places, len(decoder.merged_pairs) - 1), tf.shape(wanted))
        is_pair = (right >= 0) & tf.equal(tf.gather(pairs, places), wanted)
        ranks = tf.where(is_pair, tf.gather(decoder.merged_ranks, places), _NEVER)
        first = tf.argmin(ranks, axis=1, output_type=tf.int32)
        place = tf.gather(places, first, batch_dims=1)
        return first, tf.gather(decoder.merged_symbols, place), tf.reduce_min(ranks, axis=1) < _NEVER

    def step(symbols, first, merged, is_found):
        column, first = tf.range(tf.shape(symbols)[1]), first[:, None]
        following = tf.concat([symbols[:, 1:], tf.fill([tf.shape(symbols)[0], 1], -1)], axis=1)
        shorter = tf.where(column < first, symbols, following)
        shorter = tf.where(tf.equal(column, first), merged[:, None], shorter)
        symbols = tf.where(is_found[:, None], shorter, symbols)
        return symbols, *find(symbols)

    symbols, *_ = tf.while_loop(lambda *each: tf.reduce_any(each[-1]), step, (symbols, *find(symbols)))
    return symbols
