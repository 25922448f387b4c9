"""Whisper's decoder (Radford et al. 2022, section 2.2; Hugging Face's modeling_whisper.py).

It has Transformer blocks with layer norm before each module, learned positions, and embeddings that are also
the output weights (Press and Wolf, 2017). It scores and proposes transcripts. Its classes are the tokens that
can spell the characters of a language model, and the end symbol. No other tokens are included, so the decoder
outputs neither punctuation nor traditional characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.models import attention, layers

SCOPE = "whisper_decoder"
_IMPOSSIBLE = -1e9


class DecoderArrays(NamedTuple):
    """A decoder reduced to the tokens with which a language model's characters can be spelled.

    Symbols are the characters (symbol i is character i), followed by the results of merging pairs of symbols.
    """

    heads: int
    layers: int
    weights: Mapping[str, np.ndarray]  # variables, keyed by name without the prefix SCOPE
    token_texts: np.ndarray  # bytes [num_tokens], UTF-8, may split a character; class num_tokens is the end
    characters: np.ndarray  # str [num_characters]; letters are upper case
    readings: np.ndarray  # int32 [num_characters, max_readings], acoustic tokens, padded with -1
    spellings: np.ndarray  # int32 [num_symbols, max_pieces], decoder tokens for each symbol, padded with -1
    merged_pairs: np.ndarray  # int64 [num_merges], left x num_symbols + right, in ascending order
    merged_ranks: np.ndarray  # int32 [num_merges]; the pair with the lowest rank is merged first
    merged_symbols: np.ndarray  # int32 [num_merges], the symbol that replaces each pair


class Memory(NamedTuple):
    """Encoder outputs, projected to the keys and values to which the decoder attends."""

    # Keys and values for each block, float32 [batch, heads, length, units / heads].
    blocks: list[tuple[tf.Tensor, tf.Tensor]]
    mask: tf.Tensor  # float32 [batch, length]


def attend_to(decoder: DecoderArrays, outputs: tf.Tensor, num_outputs: tf.Tensor) -> Memory:
    """Converts encoder outputs, float32 [batch, length, units], to a Memory; num_outputs is int32 [batch]."""
    for name in decoder.weights:  # creates all variables, because a while loop cannot create any
        _get(decoder, name)
    mask, blocks = layers.sequence_mask(num_outputs, tf.shape(outputs)[1]), []
    outputs = layers.clear_padding(outputs, mask)
    for number in range(1, int(decoder.layers) + 1):
        with _scope(), tf.compat.v1.variable_scope(f"block_{number}/cross_attention"):
            parts = ("key", "value")
            blocks.append(tuple(attention.project(outputs, parts, _units(decoder), int(decoder.heads))))
    return Memory(blocks, mask)


def score(decoder: DecoderArrays, memory: Memory, ids: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    """Returns the log probabilities of token sequences including their ends, float32 [batch, num_sequences].

    ids is int32 [batch, num_sequences, max_tokens]; positions at or beyond num_tokens, int32 [batch,
    num_sequences], are ignored.
    """
    # Scores one sequence per utterance at a time: for 30 s of audio, all at once would take gigabytes.
    by_place = tf.transpose(ids, [1, 0, 2]), tf.transpose(num_tokens)
    options = {"parallel_iterations": 1, "fn_output_signature": tf.float32}
    return tf.transpose(tf.map_fn(lambda sequences: _score(decoder, memory, *sequences), by_place, **options))


def _score(decoder, memory, ids, num_tokens):
    """Returns the log probability of one sequence per utterance, float32 [batch]; see score."""
    batch, length = tf.unstack(tf.shape(ids))
    end_id = len(decoder.token_texts)
    previous = tf.where(tf.sequence_mask(num_tokens, length), ids, end_id)
    hidden = tf.concat([_embed_prompt(decoder, batch), _embed(decoder, previous)], axis=1)
    logits, _ = _run(decoder, memory, hidden, None, first=_prompt_length(decoder) - 1)
    targets = tf.pad(previous, [[0, 0], [0, 1]], constant_values=end_id)
    weights = tf.sequence_mask(num_tokens + 1, length + 1, tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return -tf.reduce_sum(losses * weights, axis=1)


class _Beam(NamedTuple):
    """The best sequences for each utterance, best first."""

    ids: tf.Tensor  # int32 [batch, width, length]
    scores: tf.Tensor  # float32 [batch, width]
    cache: tf.Tensor  # keys and values, float32 [2 x layers, batch x width, heads, positions, units / heads]


def propose(decoder: DecoderArrays, memory: Memory, limits: tf.Tensor, width: int) -> tf.Tensor:
    """Returns the sequences that beam search finds, int32 [batch, width, max_tokens], padded with -1.

    `limits`, int32 [batch], holds the maximum length of each utterance's sequences in tokens, at least 1.
    """
    end_id, batch = len(decoder.token_texts), tf.shape(memory.mask)[0]
    logits, cache = _run(decoder, memory, _embed_prompt(decoder, batch), None)
    scores, ids = tf.math.top_k(tf.nn.log_softmax(logits[:, -1]), width)
    beam = _Beam(ids[..., None], scores, tf.repeat(cache, width, axis=1))
    shapes = _Beam(
        tf.TensorShape([None, width, None]),
        tf.TensorShape([None, width]),
        tf.TensorShape([cache.shape[0], None, *cache.shape[2:3], None, cache.shape[4]]),
    )

    def is_any_open(i, beam):
        is_open = tf.not_equal(beam.ids[..., -1], end_id) & (i < limits)[:, None]
        return tf.reduce_any(is_open)

    def step(i, beam):
        return i + 1, _extend(decoder, memory, beam, i >= limits)

    start = tf.constant(1), beam
    _, beam = tf.while_loop(is_any_open, step, start, shape_invariants=(tf.TensorShape([]), shapes))
    return tf.where(tf.equal(beam.ids, end_id), -1, beam.ids)


def _extend(decoder, memory, beam: _Beam, is_over) -> _Beam:
    """Adds a token to each sequence: the end symbol if it has ended, or if is_over (bool [batch]) is True."""
    batch, width, length = tf.unstack(tf.shape(beam.ids))
    end_id, last = len(decoder.token_texts), beam.ids[..., -1]
    hidden = _embed(decoder, tf.reshape(last, [-1, 1]), _prompt_length(decoder) + length - 1)
    logits, cache = _run(decoder, memory, hidden, beam.cache)
    log_probs = tf.reshape(tf.nn.log_softmax(logits[:, 0]), [batch, width, end_id + 1])
    ends_only = _IMPOSSIBLE * (1.0 - tf.one_hot(end_id, end_id + 1))
    has_ended = tf.equal(last, end_id) | is_over[:, None]
    log_probs = tf.where(has_ended[..., None], ends_only, log_probs)
    totals = tf.reshape(beam.scores[..., None] + log_probs, [batch, -1])
    scores, places = tf.math.top_k(totals, beam.ids.shape[1])
    origins, ids = places // (end_id + 1), places % (end_id + 1)
    rows = tf.reshape(origins + width * tf.range(batch)[:, None], [-1])
    prefixes = tf.gather(beam.ids, origins, batch_dims=1)
    return _Beam(tf.concat([prefixes, ids[..., None]], axis=2), scores, tf.gather(cache, rows, axis=1))


def _scope():
    return tf.compat.v1.variable_scope(SCOPE, reuse=tf.compat.v1.AUTO_REUSE, custom_getter=layers.as_constant)


def _get(decoder, name):
    with _scope():
        return tf.compat.v1.get_variable(name, decoder.weights[name].shape)


def _units(decoder) -> int:
    return decoder.weights["prompt"].shape[1]


def _prompt_length(decoder) -> int:
    return len(decoder.weights["prompt"])


def _embed_prompt(decoder, rows) -> tf.Tensor:
    prompt = _get(decoder, "prompt") + _get(decoder, "positions")[: _prompt_length(decoder)]
    return tf.tile(prompt[None], [rows, 1, 1])


def _embed(decoder, ids, position=None) -> tf.Tensor:
    """Returns embeddings of ids, int32 [rows, length]; `position` defaults to the first after the prompt."""
    first = _prompt_length(decoder) if position is None else position
    table = _get(decoder, "positions")
    # Tokens beyond the last position in the table share that position.
    places = tf.minimum(first + tf.range(tf.shape(ids)[1]), table.shape[0] - 1)
    return tf.gather(_get(decoder, "embeddings"), ids) + tf.gather(table, places)


def _run(decoder, memory: Memory, hidden, cache, first=0) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns logits, float32 [rows, length - first, num_classes], and all keys and values so far.

    `hidden` is float32 [rows, length, units], where rows is a multiple of the batch size; logits begin at
    position `first`. `cache` holds the keys and values of earlier positions.
    """
    parts = []
    for number, (keys, values) in enumerate(memory.blocks, 1):
        past = None if cache is None else cache[2 * number - 2 : 2 * number]
        with _scope(), tf.compat.v1.variable_scope(f"block_{number}"):
            hidden, new = _block(decoder, hidden, (keys, values, memory.mask), past)
        parts += new
    with _scope():
        hidden = layers.layer_norm(hidden[:, first:], "output_norm", layers.PYTORCH_EPSILON)
    return layers.linear(hidden, tf.transpose(_get(decoder, "embeddings")), None), tf.stack(parts)


def _block(decoder, hidden, memory, past):
    units, heads, shape = _units(decoder), int(decoder.heads), tf.shape(hidden)
    normed = layers.layer_norm(hidden, "attention_norm", layers.PYTORCH_EPSILON)
    with tf.compat.v1.variable_scope("self_attention"):
        queries, *new = attention.project(normed, ("query", "key", "value"), units, heads)
        if past is not None:
            new = [tf.concat(pair, axis=2) for pair in zip(tf.unstack(past, 2), new)]
        keys, values = new
        length, total = tf.shape(queries)[2], tf.shape(keys)[2]
        mask = tf.linalg.band_part(tf.ones([1, length, total]), -1, total - length)
        attended, _ = attention.attend(queries, keys, values, mask)
        hidden += layers.dense(attended, units, "output")
    normed = layers.layer_norm(hidden, "memory_norm", layers.PYTORCH_EPSILON)
    keys, values, mask = memory
    with tf.compat.v1.variable_scope("cross_attention"):
        grouped = tf.reshape(normed, [tf.shape(mask)[0], -1, units])  # groups the sequences of each utterance
        (queries,) = attention.project(grouped, ("query",), units, heads)
        attended, _ = attention.attend(queries, keys, values, mask)
        hidden += tf.reshape(layers.dense(attended, units, "output"), shape)
    normed = layers.layer_norm(hidden, "feed_forward_norm", layers.PYTORCH_EPSILON)
    inner = layers.dense(normed, decoder.weights["block_1/inner/bias"].shape[0], "inner", layers.gelu)
    return hidden + layers.dense(inner, units, "outer"), new
