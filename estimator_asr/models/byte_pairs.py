"""Byte-pair encoding of characters with TensorFlow operations (Sennrich et al. 2016, section 3.2).

Merging can start with whole characters instead of bytes, because no token in Whisper's vocabulary combines
part of a hanzi with bytes from another hanzi.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_asr.models import whisper_decoder

_NEVER = np.iinfo(np.int32).max  # rank of pairs that cannot be merged


def encode(decoder: whisper_decoder.DecoderArrays, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Encodes characters, int32 [rows, max_characters]; a character of -1 is skipped.

    Returns:
        Tokens, int32 [rows, max_tokens], padded with -1; and the number of tokens in each row, int32 [rows].
    """
    symbols = _merge(decoder, tf.pad(_squeeze(characters)[0], [[0, 0], [0, 2]], constant_values=-1))
    pieces = tf.gather(decoder.spellings, tf.maximum(symbols, 0))
    pieces = tf.where(symbols[..., None] >= 0, pieces, -1)
    return _squeeze(tf.reshape(pieces, [tf.shape(symbols)[0], -1]))


def _squeeze(ids):
    """Moves every -1 to the end of its row; returns the rows and the number of ids in each row."""
    ragged = tf.ragged.boolean_mask(ids, ids >= 0)
    return ragged.to_tensor(-1), tf.cast(ragged.row_lengths(), tf.int32)


def _merge(decoder, symbols):
    """Repeatedly merges the lowest-ranked pair in each row (on a tie, the first) until none can be merged."""
    pairs, num_symbols = tf.constant(decoder.merged_pairs), len(decoder.spellings)

    def find(symbols):
        firsts, seconds = tf.cast(symbols[:, :-1], tf.int64), tf.cast(symbols[:, 1:], tf.int64)
        keys = firsts * num_symbols + seconds
        places = tf.searchsorted(pairs, tf.reshape(keys, [-1]))
        places = tf.reshape(tf.minimum(places, len(decoder.merged_pairs) - 1), tf.shape(keys))
        is_pair = (seconds >= 0) & tf.equal(tf.gather(pairs, places), keys)
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

    symbols, *_ = tf.while_loop(lambda *state: tf.reduce_any(state[-1]), step, (symbols, *find(symbols)))
    return symbols
