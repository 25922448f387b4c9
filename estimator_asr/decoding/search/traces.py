"""Traces back the tokens that a prefix beam search added, by following the links stored for each frame."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

# Prefixes in a search's initial beam have negative nodes: NO_NODE for prefix 0, NO_NODE - i for prefix i.
NO_NODE = -1


class Traced(NamedTuple):
    """The tokens that a search added to its initial beam."""

    ids: tf.Tensor  # int32 [batch, num_best, max_tokens], padded with -1
    num_tokens: tf.Tensor  # int32 [batch, num_best]
    frames: tf.Tensor  # int32 [batch, num_best, max_tokens], index of the frame that added each token, or -1
    roots: tf.Tensor  # int32 [batch, num_best], index of the extended prefix in the initial beam


def trace(nodes: tf.Tensor, links: tf.Tensor) -> Traced:
    """Follows nodes, int64 [batch, num_best], back to the search's initial beam.

    A node is a number: frame x width + index in the beam. Links, int64 [num_searched, batch, width, 2],
    contain the previous node and the token.
    """
    nodes, links = tf.cast(nodes, tf.int32), tf.cast(links, tf.int32)
    shape = tf.shape(links)
    table = tf.reshape(tf.transpose(links, [1, 0, 2, 3]), [shape[1], shape[0] * shape[2], 2])
    tokens = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[*nodes.shape, 2])

    def step(i, nodes, tokens):
        before, last = tf.unstack(tf.gather(table, tf.maximum(nodes, 0), batch_dims=1), axis=-1)
        is_token = nodes >= 0
        added = tf.stack([last, nodes // shape[2]], axis=-1)
        tokens = tokens.write(i, tf.where(is_token[..., None], added, -1))
        return i + 1, tf.where(is_token, before, nodes), tokens

    def is_unfinished(i, nodes, _):  # true for i = 0, because an empty TensorArray cannot be stacked
        return tf.equal(i, 0) | tf.reduce_any(nodes >= 0)

    _, roots, tokens = tf.while_loop(is_unfinished, step, (0, nodes, tokens))
    backwards = tf.transpose(tokens.stack(), [1, 2, 0, 3])  # [batch, num_best, max_tokens, 2], latest first
    num_tokens = tf.reduce_sum(tf.cast(backwards[..., 0] >= 0, tf.int32), axis=-1)
    shape = tf.shape(backwards)
    rows = tf.reshape(backwards, [shape[0] * shape[1], shape[2], 2])
    rows = tf.reverse_sequence(rows, tf.reshape(num_tokens, [-1]), seq_axis=1)
    ids, frames = tf.unstack(tf.reshape(rows, shape), axis=-1)
    return Traced(ids, num_tokens, frames, NO_NODE - roots)
