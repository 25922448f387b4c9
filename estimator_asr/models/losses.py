"""Loss functions: CTC per utterance and cross-entropy per label. The blank is the last class."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.models import layers

WRONG_LABEL = "label out of range:"  # prefix of the error for a label that is not a class, or the blank
CLASSIC, CUDNN = "classic", "cudnn"
CUDNN_MAX_LABELS = 255  # cudnnCTCLoss refuses label sequences of more than 256


def ctc_loss(
    logits: tf.Tensor,
    num_frames: tf.Tensor,
    token_ids: tf.Tensor,
    num_tokens: tf.Tensor,
    kernel: str = CLASSIC,
) -> tf.Tensor:
    """Returns the negative log probability of the labels over all alignments (Graves et al., 2006).

    An utterance without labels, or with fewer frames than labels plus repeats, has no alignment: its loss and
    gradient are 0. So is the gradient of every frame at or beyond num_frames (cuDNN's kernel returns another:
    tensorflow#41280).

    Args:
        logits: float [batch, num_frames, num_classes].
        num_frames: int32 [batch].
        token_ids: int32 [batch, max_tokens]; ids at or beyond num_tokens are ignored.
        num_tokens: int32 [batch].
        kernel: one of KERNELS. "classic" runs on the CPU, "cudnn" needs a GPU.

    Returns:
        float32 [batch].

    Raises:
        ValueError, tf.errors.InvalidArgumentError: as for check_labels; the blank is no label.
    """
    token_ids = check_labels(token_ids, num_tokens, logits.shape[-1] - 1)
    possible = has_alignment(num_frames, token_ids, num_tokens)
    is_frame = tf.sequence_mask(num_frames, tf.shape(logits)[1]) & possible[:, None]
    logits = tf.where(is_frame[:, :, None], tf.cast(logits, tf.float32), 0.0)
    # An impossible utterance gets one label, one frame and weight 0: the kernels refuse empty ones
    # and return infinity where there are too few frames.
    num_tokens = tf.where(possible, num_tokens, tf.ones_like(num_tokens))
    token_ids = tf.pad(token_ids, [[0, 0], [0, 1]])
    is_token = tf.sequence_mask(num_tokens, tf.shape(token_ids)[1])
    labels = tf.ragged.boolean_mask(token_ids, is_token).to_sparse()
    losses = KERNELS[kernel](labels, logits, tf.maximum(num_frames, 1))
    return tf.where(possible, losses, tf.zeros_like(losses))


def _classic(labels, logits, num_frames):
    return tf.compat.v1.nn.ctc_loss(
        labels, logits, num_frames, time_major=False, ignore_longer_outputs_than_inputs=True
    )


def _cudnn(labels, logits, num_frames):
    """Calls the op: tf.nn.ctc_loss leaves the choice of kernel to graph optimisation, which may miss it."""

    def run():
        return tf.raw_ops.CTCLossV2(
            inputs=tf.transpose(tf.roll(logits, 1, axis=-1), [1, 0, 2]),  # its blank is class 0
            labels_indices=labels.indices,
            labels_values=labels.values + 1,
            sequence_length=num_frames,
        )[0]

    fits = labels.dense_shape[1] <= CUDNN_MAX_LABELS
    return tf.cond(fits, run, lambda: _classic(labels, logits, num_frames))


KERNELS = {CLASSIC: _classic, CUDNN: _cudnn}


@tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would drop the check
def check_labels(ids: tf.Tensor, num_ids: tf.Tensor, size: int) -> tf.Tensor:
    """Returns ids int32 [batch, max_ids], 0 at or beyond num_ids (int32 [batch]), checked in each step.

    The kernels do not check: they drop or change a blank among the labels without an error.

    Raises:
        ValueError: the ids are not a matrix of integers.
        tf.errors.InvalidArgumentError (when it runs): with WRONG_LABEL; one of them is not 0 to size - 1.
    """
    if ids.shape.rank != 2 or not ids.dtype.is_integer:
        raise ValueError(
            f"labels: type is {ids.dtype.name} of rank {ids.shape.rank}, expected int32 [batch, max_ids]; "
            "pass ids, not one-hot vectors"
        )
    ids = tf.where(tf.sequence_mask(num_ids, tf.shape(ids)[1]), ids, 0)
    is_right = tf.reduce_all((ids >= 0) & (ids < size))
    found = [WRONG_LABEL, tf.reduce_min(ids), "to", tf.reduce_max(ids), f"expected 0 to {size - 1}"]
    with tf.control_dependencies([tf.debugging.Assert(is_right, found)]):
        return tf.identity(ids)


def has_alignment(num_frames: tf.Tensor, token_ids: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    """Returns bool [batch]: has labels, and frames for them and the blanks that separate equal ones."""
    following = tf.concat([token_ids[:, 1:], -tf.ones_like(token_ids[:, :1])], axis=1)
    is_pair = tf.sequence_mask(num_tokens - 1, tf.shape(token_ids)[1])
    repeats = tf.reduce_sum(tf.cast(is_pair & tf.equal(token_ids, following), tf.int32), axis=1)
    return (num_tokens > 0) & (num_frames >= num_tokens + repeats)


def cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, label_smoothing: float = 0.0
) -> tf.Tensor:
    """Returns the sparse softmax cross-entropy of each position times its weight, float32 [batch, length].

    With smoothing s the target is 1 - s for the label plus s spread evenly over all classes (Szegedy et al.,
    2016, section 7).

    Args:
        logits: float [batch, length, num_classes].
        labels: int32 [batch, length].
        weights: float32 [batch, length]; 0 excludes a position, even if its logits are NaN.
        label_smoothing: s, from 0 up to 1.
    """
    logits = layers.clear_padding(tf.cast(logits, tf.float32), weights)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if label_smoothing:
        uniform = tf.reduce_logsumexp(logits, axis=-1) - tf.reduce_mean(logits, axis=-1)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * uniform
    return losses * weights
