"""Losses: logits and labels in, one figure a label sequence or a label out. The blank is the last class."""

from __future__ import annotations

import tensorflow as tf


def ctc_loss(
    logits: tf.Tensor, num_frames: tf.Tensor, token_ids: tf.Tensor, num_tokens: tf.Tensor
) -> tf.Tensor:
    """Negative log probability of the labels summed over all alignments (Graves et al., 2006).

    An utterance without labels, or with fewer frames than labels plus repeats, has no alignment: its loss and
    gradient are 0.

    Args:
      logits: float32 [batch, num_frames, num_classes].
      num_frames: int32 [batch].
      token_ids: int32 [batch, max_tokens]; ids at or beyond num_tokens are ignored.
      num_tokens: int32 [batch].

    Returns:
      float32 [batch].
    """
    possible = has_alignment(num_frames, token_ids, num_tokens)
    # An impossible utterance gets a label, a frame and weight 0: the op refuses an empty one, and is infinite
    # where equal labels have no room.
    num_tokens = tf.where(possible, num_tokens, tf.ones_like(num_tokens))
    num_frames = tf.maximum(num_frames, 1)
    token_ids = tf.pad(token_ids, [[0, 0], [0, 1]])
    is_token = tf.sequence_mask(num_tokens, tf.shape(token_ids)[1])
    losses = tf.compat.v1.nn.ctc_loss(
        tf.ragged.boolean_mask(token_ids, is_token).to_sparse(),
        logits,
        num_frames,
        time_major=False,
        ignore_longer_outputs_than_inputs=True,
    )
    return tf.where(possible, losses, tf.zeros_like(losses))


def has_alignment(num_frames: tf.Tensor, token_ids: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    """Returns bool [batch]: there are labels, and frames for them and for a blank between equal ones."""
    following = tf.concat([token_ids[:, 1:], -tf.ones_like(token_ids[:, :1])], axis=1)
    is_pair = tf.sequence_mask(num_tokens - 1, tf.shape(token_ids)[1])
    repeats = tf.reduce_sum(tf.cast(is_pair & tf.equal(token_ids, following), tf.int32), axis=1)
    return (num_tokens > 0) & (num_frames >= num_tokens + repeats)


def cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, label_smoothing: float = 0.0
) -> tf.Tensor:
    """Sparse softmax cross-entropy at each position, times its weight.

    With smoothing s the target is 1 - s on the label plus s spread evenly over all classes (Szegedy et al.,
    2016, section 7).

    Args:
      logits: float32 [batch, length, num_classes].
      labels: int32 [batch, length].
      weights: float32 [batch, length]; 0 leaves a position out.
      label_smoothing: s, from 0 up to 1.

    Returns:
      float32 [batch, length].
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if label_smoothing:
        uniform = tf.reduce_logsumexp(logits, axis=-1) - tf.reduce_mean(logits, axis=-1)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * uniform
    return losses * weights
