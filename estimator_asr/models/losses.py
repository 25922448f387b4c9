"""Loss functions: CTC per utterance, and cross-entropy per label over all classes or a sample of classes.

The blank is the last class. Sampling is for decoders that have so many classes that a softmax over all of
them would be slow. Each step samples some classes and compares every label with only these classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers

WRONG_LABEL = "E_WRONG_LABEL"  # error code for a label that is the blank or is not a class


def ctc_loss(
    logits: tf.Tensor, num_frames: tf.Tensor, token_ids: tf.Tensor, num_tokens: tf.Tensor
) -> tf.Tensor:
    """Returns the negative log of the labels' total probability over all alignments (Graves et al., 2006).

    The loss is computed on the CPU even if the logits are on a GPU, because cuDNN's kernel,
    tf.raw_ops.CTCLossV2, returned wrong losses in some steps (docs/experiments/gpu.md).

    An utterance without labels has one alignment, a blank in each frame. An utterance with fewer frames than
    labels plus repeated labels has no alignment, so its loss and gradient are 0. The gradient is also 0 at
    padded frames.

    Args:
        logits: float [batch, num_frames, num_classes].
        num_frames: int32 [batch].
        token_ids: int32 [batch, max_tokens]; ids at or beyond num_tokens are ignored.
        num_tokens: int32 [batch].

    Returns:
        float32 [batch]. Raises the same errors as check_labels; the blank is also an invalid label.
    """
    token_ids = check_labels(token_ids, num_tokens, logits.shape[-1] - 1)
    possible = has_alignment(num_frames, token_ids, num_tokens)
    is_frame = tf.sequence_mask(num_frames, tf.shape(logits)[1]) & possible[:, None]
    logits = tf.where(is_frame[:, :, None], tf.cast(logits, tf.float32), 0.0)
    is_spoken = possible & (num_tokens > 0)
    # The kernel rejects utterances without labels, and returns infinity for utterances with too few frames.
    # So these get one label and logits that are all zero, and the kernel's loss for them is not used.
    num_tokens = tf.where(is_spoken, num_tokens, tf.ones_like(num_tokens))
    token_ids = tf.pad(token_ids, [[0, 0], [0, 1]])
    is_token = tf.sequence_mask(num_tokens, tf.shape(token_ids)[1])
    labels = tf.ragged.boolean_mask(token_ids, is_token).to_sparse()
    spoken_logits = tf.where(is_spoken[:, None, None], logits, 0.0)
    losses = tf.compat.v1.nn.ctc_loss(
        *(labels, spoken_logits, tf.maximum(num_frames, 1)),
        time_major=False,
        ignore_longer_outputs_than_inputs=True,
    )
    blank_losses = tf.reduce_logsumexp(logits, axis=-1) - logits[..., -1]
    all_blank = tf.reduce_sum(tf.where(is_frame, blank_losses, 0.0), axis=1)
    return tf.where(is_spoken, losses, tf.where(possible, all_blank, tf.zeros_like(losses)))


@tf.xla.experimental.jit_scope(compile_ops=False)  # XLA would drop the check
def check_labels(ids: tf.Tensor, num_ids: tf.Tensor, size: int) -> tf.Tensor:
    """Checks ids, int32 [batch, max_ids], in each step; returns the ids with zeros at or beyond num_ids.

    The CTC kernel does not check labels: it silently drops or changes a label that is the blank.

    Raises:
        ValueError: the ids are not a matrix of integers.
        tf.errors.InvalidArgumentError: an id is not between 0 and size - 1. This error is raised when the
            step runs, and its message contains WRONG_LABEL.
    """
    if ids.shape.rank != 2 or not ids.dtype.is_integer:
        raise ValueError(
            f"labels: got rank {ids.shape.rank} and dtype {ids.dtype.name}, expected int32 [batch, max_ids]; "
            "pass ids, not one-hot vectors"
        )
    ids = tf.where(tf.sequence_mask(num_ids, tf.shape(ids)[1]), ids, 0)
    is_right = tf.reduce_all((ids >= 0) & (ids < size))
    got = [f"{WRONG_LABEL}: label out of range:", tf.reduce_min(ids), "to", tf.reduce_max(ids)]
    with tf.control_dependencies([tf.debugging.Assert(is_right, [*got, f"expected 0 to {size - 1}"])]):
        return tf.identity(ids)


def has_alignment(num_frames: tf.Tensor, token_ids: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    """Returns bool [batch], True if an utterance has enough frames for CTC; see vocabulary.min_ctc_frames."""
    following = tf.concat([token_ids[:, 1:], -tf.ones_like(token_ids[:, :1])], axis=1)
    is_pair = tf.sequence_mask(num_tokens - 1, tf.shape(token_ids)[1])
    repeats = tf.reduce_sum(tf.cast(is_pair & tf.equal(token_ids, following), tf.int32), axis=1)
    return num_frames >= num_tokens + repeats


def cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, label_smoothing: float = 0.0
) -> tf.Tensor:
    """Returns the weighted sparse softmax cross-entropy at each position, float32 [batch, length].

    The logits are float [batch, length, num_classes]; the labels (int32) and weights (float32) are [batch,
    length]. Weight 0 excludes a position, even if its logits are NaN. With smoothing s, the target is 1 - s
    for the label, plus s spread evenly over all classes (Szegedy et al., 2016, section 7).
    """
    logits = layers.clear_padding(tf.cast(logits, tf.float32), weights)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if label_smoothing:
        uniform = tf.reduce_logsumexp(logits, axis=-1) - tf.reduce_mean(logits, axis=-1)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * uniform
    return losses * weights


class LogitFactors(NamedTuple):
    """The tensors from which a decoder's logits are computed: hidden x transpose(vectors) + biases."""

    hidden: tf.Tensor  # float32 [batch, length, units]
    vectors: tf.Tensor  # float32 [num_classes, units]
    biases: tf.Tensor  # float32 [num_classes]


class SampledClasses(NamedTuple):
    """Distinct sampled classes, and every class's expected count in such a sample (above 0, at most 1)."""

    classes: tf.Tensor  # int32 [num_sampled]
    expected_counts: tf.Tensor  # float32 [num_classes]


def log_uniform(by_frequency: Sequence[int]) -> np.ndarray:
    """Returns each class's probability of being sampled, float32 [num_classes].

    by_frequency lists the class ids, most frequent first. For rank r = 0, 1, ..., the probability is
    (log(r + 2) - log(r + 1)) / log(num_classes + 1), close to Zipf's law, as in
    tf.random.log_uniform_candidate_sampler. That op is not used, because it runs only on CPUs, and its random
    state is not saved, so that resumed training would continue with different samples.
    """
    ranks = np.empty(len(by_frequency))
    ranks[list(by_frequency)] = np.arange(len(by_frequency))
    return np.float32(np.log1p(1 / (ranks + 1)) / np.log(len(by_frequency) + 1))


def draw(probabilities: np.ndarray, num_sampled: int, seed: tf.Tensor) -> SampledClasses:
    """Samples distinct classes; the sample depends only on the seed (see layers.uniform).

    TensorFlow's op (see log_uniform) draws until it has num_sampled distinct classes, like a race of Poisson
    processes: class i arrives after an exponentially distributed time with rate P(i), and the first
    num_sampled classes are the sample. If the next class arrives at time T, class i is in the sample with
    probability 1 - exp(-P(i) T). Sums over the sample are unbiased if each term is divided by this
    probability (Cohen and Kaplan 2007, section 6). TensorFlow's op uses the number of draws in place of T.

    Args:
        probabilities: float32 [num_classes], all above 0.
        num_sampled: size of the sample, at most num_classes (if equal, the sample contains all classes).
    """
    times = -tf.math.log1p(-layers.uniform([len(probabilities)], seed)) / probabilities
    times = tf.concat([times, [np.inf]], axis=0)  # if all classes are sampled, no next class arrives
    earliest, classes = tf.math.top_k(-times, num_sampled + 1)
    return SampledClasses(classes[:num_sampled], -tf.math.expm1(probabilities * earliest[num_sampled]))


def sampled_softmax(
    scorer: LogitFactors, labels: tf.Tensor, weights: tf.Tensor, sample: SampledClasses
) -> tf.Tensor:
    """Returns the cross-entropy over the label and the sample (Jean et al., 2015), float32 [batch, length].

    Labels are int32 [batch, length]; a label that is also in the sample counts once. The result is multiplied
    by the weights, float32 [batch, length]; weight 0 excludes a position, even if its hidden values are NaN.
    """
    label, others = _score(scorer, labels, weights, sample)
    return weights * (tf.reduce_logsumexp(tf.concat([label, others], -1), -1) - label[..., 0])


def nce(scorer: LogitFactors, labels: tf.Tensor, weights: tf.Tensor, sample: SampledClasses) -> tf.Tensor:
    """Returns the noise-contrastive estimation loss (Gutmann and Hyvarinen, 2010); see sampled_softmax.

    The loss is a sum of logistic regression losses: one for accepting the label, and one for rejecting each
    sampled class. Logits stand for log probabilities plus log num_classes, so logits near zero, as at the
    start of training, mean equal probabilities.
    """
    sample = sample._replace(expected_counts=scorer.vectors.shape[0] * sample.expected_counts)
    label, others = _score(scorer, labels, weights, sample)
    return weights * (tf.nn.softplus(-label[..., 0]) + tf.reduce_sum(tf.nn.softplus(others), -1))


SAMPLED = {"sampled": sampled_softmax, "nce": nce}


def _score(scorer, labels, weights, sample):
    """Returns logits minus log expected counts: of labels, [..., 1], and the sample, [..., num_sampled]."""
    hidden = layers.clear_padding(scorer.hidden, weights)
    corrected = scorer.biases - tf.math.log(sample.expected_counts)
    label = tf.reduce_sum(hidden * tf.gather(scorer.vectors, labels), -1) + tf.gather(corrected, labels)
    sampled = tf.transpose(tf.gather(scorer.vectors, sample.classes))
    others = layers.linear(hidden, sampled, tf.gather(corrected, sample.classes))
    is_label = tf.equal(labels[..., None], sample.classes)
    others = tf.where(is_label, tf.constant(layers.MASKED_SCORE, others.dtype), others)
    return label[..., None], others
