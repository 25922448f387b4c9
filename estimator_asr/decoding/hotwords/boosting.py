"""Boosts hotwords in the beam search with an Aho-Corasick automaton (1975) over tokens, built in the graph.

The state of a prefix is its longest suffix that begins a phrase; in state 0, no phrase has begun. An
incomplete phrase has a potential, a bonus that keeps it in the beam. A token's score is the potential after
it minus the potential before it, plus the boosts of the phrases that it completes. At the end of the
utterance, the remaining potential is subtracted. So in total, each occurrence of a phrase adds its boost,
even if phrases overlap, and a match that is never completed adds nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from estimator_asr.decoding.search import phrases as phrases_lib

# An incomplete phrase's potential is this fraction of its boost, times the fraction of its tokens matched so
# far. Larger values fill the beam with phrases that are never completed. On aishell-sample, 1.0 causes 1 %
# more errors outside the phrases, and 0.0 misses 0.5 % more of the phrases.
_HEAD_START = 0.1


class _Nodes(NamedTuple):
    """All states except state 0: one for each distinct beginning of a phrase."""

    tokens: tf.Tensor  # int32 [num_nodes], last token of each beginning
    parents: tf.Tensor  # int32 [num_nodes], state before the last token
    # A link leads from a state to itself or to one of its suffixes; a state's longest target comes first.
    link_states: tf.Tensor  # int32 [num_links]
    link_targets: tf.Tensor  # int32 [num_links]
    link_lengths: tf.Tensor  # int32 [num_links], tokens by which the target is shorter than the state
    by_token: tf.Tensor  # int32 [num_phrases, max_length], state after each token of a phrase, padded with 0


class HotwordScorer:
    """A scorer that adds the boosts of phrases; for duplicate phrases, only the highest boost counts."""

    def __init__(self, phrases: phrases_lib.Phrases, num_tokens: int):
        """Builds an automaton for any number of phrases, whose token ids are below num_tokens."""
        # The padding ensures at least one column.
        token_ids = tf.pad(phrases.token_ids, [[0, 0], [0, 1]], constant_values=-1)
        nodes = _list_nodes(token_ids)
        num_states = tf.shape(nodes.tokens)[0] + 1
        self._num_tokens = tf.constant(num_tokens, tf.int64)
        self._keys, self._targets = _list_transitions(nodes, num_states, num_tokens)
        is_first = tf.equal(nodes.parents, 0)
        children = tf.boolean_mask(tf.range(1, num_states), is_first)
        tokens = tf.boolean_mask(nodes.tokens, is_first)[:, None]
        self._first_states = tf.tensor_scatter_nd_update(tf.zeros([num_tokens], tf.int32), tokens, children)
        self._potentials, completed = _sum_boosts(nodes, num_states, phrases.boosts, token_ids)
        self._gains = self._potentials + completed

    def start(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Returns the initial states, in which no phrase has begun, int32 [batch]."""
        return tf.zeros([batch_size], tf.int32)

    def extend(self, states: tf.Tensor, token_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores each token after each prefix; see scorers.py."""
        wanted = tf.cast(states, tf.int64)[:, :, None] * self._num_tokens
        wanted += tf.cast(token_ids, tf.int64)[:, None]
        places = tf.reshape(tf.searchsorted(self._keys, tf.reshape(wanted, [-1])), tf.shape(wanted))
        is_transition = tf.equal(tf.gather(self._keys, places), wanted)
        first_states = tf.gather(self._first_states, token_ids)[:, None]
        after = tf.where(is_transition, tf.gather(self._targets, places), first_states)
        return tf.gather(self._gains, after) - tf.gather(self._potentials, states)[:, :, None], after

    def finish(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the score that cancels the remaining potential, float32 [batch, width]."""
        return -tf.gather(self._potentials, states)


def _list_nodes(token_ids: tf.Tensor) -> _Nodes:
    windows = phrases_lib.hash_windows(token_ids)  # [last token, phrase, first token]
    length, num_phrases, _ = tf.unstack(tf.shape(windows))
    is_token = tf.transpose(token_ids >= 0)  # [last token, phrase]
    occurrences = tf.cast(tf.where(is_token), tf.int32)  # [num_occurrences, 2]
    hashes, ranks = tf.unique(tf.boolean_mask(windows[:, :, 0], is_token))
    num_nodes = tf.shape(hashes)[0]
    by_token = tf.transpose(tf.scatter_nd(occurrences, ranks + 1, [length, num_phrases]))
    # A beginning that several phrases share is read from the first of them.
    numbers = tf.range(tf.shape(ranks)[0])
    leaders = tf.gather(occurrences, tf.math.unsorted_segment_min(numbers, ranks, num_nodes))
    last, phrase = tf.unstack(leaders, axis=1)
    before = tf.gather_nd(tf.pad(by_token, [[0, 0], [1, 0]]), tf.stack([phrase, last], axis=1))
    ends = tf.gather_nd(windows, leaders)  # [num_nodes, first token]
    is_end = tf.range(length) <= last[:, None]
    order = tf.argsort(hashes)
    places, is_node = phrases_lib.look_up(tf.gather(hashes, order), tf.boolean_mask(ends, is_end))
    link_states, firsts = tf.unstack(tf.cast(tf.where(is_end), tf.int32), axis=1)
    return _Nodes(
        tf.gather_nd(token_ids, tf.stack([phrase, last], axis=1)),
        before,
        tf.boolean_mask(link_states, is_node) + 1,
        tf.gather(order, tf.boolean_mask(places, is_node)) + 1,
        tf.boolean_mask(firsts, is_node),
        by_token,
    )


def _list_transitions(nodes: _Nodes, num_states: tf.Tensor, num_tokens: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Lists the transitions whose next state depends on the current state, not only on the token.

    Returns:
        The keys (state * num_tokens + token), int64 [num_transitions + 1], sorted and followed by a key that
        is larger than all others; and the next state for each key, int32 of the same shape.
    """
    order = tf.argsort(nodes.parents)
    bounds = tf.searchsorted(tf.gather(nodes.parents, order), tf.range(num_states + 1))
    # The tokens that continue a link's target also continue the state at which the link starts.
    children = tf.ragged.range(
        tf.gather(bounds, nodes.link_targets), tf.gather(bounds, nodes.link_targets + 1)
    )
    links, children = children.value_rowids(), tf.gather(order, children.flat_values)
    keys = tf.cast(tf.gather(nodes.link_states, links), tf.int64) * num_tokens
    keys += tf.cast(tf.gather(nodes.tokens, children), tf.int64)
    # If several transitions have the same key, the one with the longest target comes first and is kept.
    length = tf.cast(tf.reduce_max(tf.pad(nodes.link_lengths, [[0, 1]])) + 1, tf.int64)
    order = tf.argsort(keys * length + tf.cast(tf.gather(nodes.link_lengths, links), tf.int64))
    keys, children = tf.gather(keys, order), tf.gather(children, order)
    is_longest = tf.not_equal(keys, tf.concat([[-1], keys], 0)[:-1])
    keys, targets = tf.boolean_mask(keys, is_longest), tf.boolean_mask(children, is_longest) + 1
    return tf.concat([keys, [tf.int64.max]], 0), tf.pad(targets, [[0, 1]])


def _sum_boosts(
    nodes: _Nodes, num_states: tf.Tensor, boosts: tf.Tensor, token_ids: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns each state's potential, and the total boost of the phrases that end in the state."""
    is_token = token_ids >= 0
    positions = tf.cast(tf.cumsum(tf.cast(is_token, tf.int32), axis=1), tf.float32)
    lengths = tf.reduce_max(positions, axis=1, keepdims=True)
    is_end = is_token & tf.equal(positions, lengths)
    head_starts = _HEAD_START * boosts[:, None] * positions / tf.maximum(lengths, 1.0)
    parts = tf.where(is_token & ~is_end, head_starts, 0.0)
    wholes = tf.where(is_end, boosts[:, None], 0.0)
    states = tf.reshape(nodes.by_token, [-1])
    own_parts, own_wholes = (
        _highest(tf.reshape(values, [-1]), states, num_states) for values in (parts, wholes)
    )
    potentials = _highest(tf.gather(own_parts, nodes.link_targets), nodes.link_states, num_states)
    completed = tf.math.unsorted_segment_sum(
        tf.gather(own_wholes, nodes.link_targets), nodes.link_states, num_states
    )
    return potentials, completed


def _highest(values: tf.Tensor, states: tf.Tensor, num_states: tf.Tensor) -> tf.Tensor:
    """Returns the highest of each state's values, or 0 if none of them is above 0."""
    return tf.maximum(tf.math.unsorted_segment_max(values, states, num_states), 0.0)
