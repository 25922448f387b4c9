"""Losses over a sample of the classes, for decoders whose softmax over all of them would be slow.

A step draws `num_sampled` classes and compares every label with them. Class of frequency rank r = 0, 1, ...
is drawn by the log-uniform distribution P(r) = (log(r + 2) - log(r + 1)) / log(num_classes + 1), close to
Zipf's law, as by tf.random.log_uniform_candidate_sampler. That op is not used: its random state is not saved,
so an interrupted training would continue with other draws; and it runs on CPUs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.models import layers


class Scorer(NamedTuple):
    """What the logits of a decoder are made of: hidden x vectors + biases."""

    hidden: tf.Tensor  # float32 [batch, length, units]
    vectors: tf.Tensor  # float32 [num_classes, units]
    biases: tf.Tensor  # float32 [num_classes]


class Sample(NamedTuple):
    """Distinct classes, and the expected count of each class in the sample: at most 1, above 0."""

    classes: tf.Tensor  # int32 [num_sampled]
    expected_counts: tf.Tensor  # float32 [num_classes]


def log_uniform(by_frequency: Sequence[int]) -> np.ndarray:
    """Returns P of each class, float32 [num_classes], by the ids of all classes, most frequent first."""
    ranks = np.empty(len(by_frequency))
    ranks[list(by_frequency)] = np.arange(len(by_frequency))
    return np.float32(np.log1p(1 / (ranks + 1)) / np.log(len(by_frequency) + 1))


def draw(probabilities: np.ndarray, num_sampled: int, seed: tf.Tensor) -> Sample:
    """Draws distinct classes, the same for the same seed (int64 [2]) at the same place of the graph.

    Drawing until num_sampled of them are distinct, as TensorFlow's op does, is a race of Poisson processes:
    class i arrives at an exponential time of rate P(i), and the first num_sampled classes are the sample.
    Given the time T of the next one, a class is among them with probability 1 - exp(-P(i) T), and sums over
    the sample divided by it are unbiased (Cohen and Kaplan 2007, section 6). The op has the number of draws
    in place of T.

    Args:
        probabilities: float32 [num_classes], above 0.
        num_sampled: at most num_classes, and then the sample is all of them.
    """
    times = -tf.math.log1p(-layers.uniform([len(probabilities)], seed)) / probabilities
    times = tf.concat([times, [np.inf]], axis=0)  # nothing is left out of a sample of all classes
    earliest, classes = tf.math.top_k(-times, num_sampled + 1)
    return Sample(classes[:num_sampled], -tf.math.expm1(probabilities * earliest[num_sampled]))


def sampled_softmax(scorer: Scorer, labels: tf.Tensor, weights: tf.Tensor, sample: Sample) -> tf.Tensor:
    """Returns the cross-entropy over the label and the sample (Jean et al., 2015), float32 [batch, length].

    Args:
        scorer: of the positions and classes.
        labels: int32 [batch, length]. Where a label is in the sample too, it counts once.
        weights: float32 [batch, length]; 0 excludes a position, even if its hidden values are NaN.
        sample: as `draw` returns it.
    """
    label, others = _score(scorer, labels, weights, sample)
    return weights * (tf.reduce_logsumexp(tf.concat([label, others], -1), -1) - label[..., 0])


def nce(scorer: Scorer, labels: tf.Tensor, weights: tf.Tensor, sample: Sample) -> tf.Tensor:
    """Returns the loss of noise-contrastive estimation (Gutmann and Hyvarinen, 2010); see sampled_softmax.

    It is that of telling the label from the classes of the sample, each by a logistic regression. Logits are
    log probabilities plus log num_classes, so that all classes are equally probable before training.
    """
    sample = sample._replace(expected_counts=scorer.vectors.shape[0] * sample.expected_counts)
    label, others = _score(scorer, labels, weights, sample)
    return weights * (tf.nn.softplus(-label[..., 0]) + tf.reduce_sum(tf.nn.softplus(others), -1))


LOSSES = {"sampled": sampled_softmax, "nce": nce}


def _score(scorer, labels, weights, sample):
    """Returns logits minus log expected counts, of labels [..., 1] and of the sample [..., num_sampled]."""
    hidden = layers.clear_padding(scorer.hidden, weights)
    corrected = scorer.biases - tf.math.log(sample.expected_counts)
    label = tf.reduce_sum(hidden * tf.gather(scorer.vectors, labels), -1) + tf.gather(corrected, labels)
    sampled = tf.transpose(tf.gather(scorer.vectors, sample.classes))
    others = layers.linear(hidden, sampled, tf.gather(corrected, sample.classes))
    is_label = tf.equal(labels[..., None], sample.classes)
    others = tf.where(is_label, tf.constant(layers.MASKED_SCORE, others.dtype), others)
    return label[..., None], others
