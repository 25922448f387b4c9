"""Sampled softmax and NCE against TensorFlow's versions and the full softmax, and the sampling itself."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.models import acoustic, losses

BATCH, LENGTH, UNITS, NUM_CLASSES = 3, 4, 5, 30
PEERS = {"sampled": tf.nn.sampled_softmax_loss, "nce": tf.nn.nce_loss}
WEIGHTS = np.float32([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])


pytestmark = pytest.mark.usefixtures("graph")


def make_scorer(rng):
    values = [
        rng.normal(size=shape) for shape in ([BATCH, LENGTH, UNITS], [NUM_CLASSES, UNITS], [NUM_CLASSES])
    ]
    return losses.LogitFactors(*(tf.constant(value, tf.float32) for value in values))


def make_labels(rng):
    return tf.constant(rng.integers(0, NUM_CLASSES, [BATCH, LENGTH]), tf.int32)


def evaluate(fetches, feeds=None):
    with tf.compat.v1.Session() as session:
        return session.run(fetches, feeds)


def draws_of(num_classes, num_sampled, repetitions):
    """Classes [repetitions, num_sampled] and expected counts [repetitions, num_classes] of many steps."""
    seed = tf.compat.v1.placeholder(tf.int64, [2])
    sample = losses.draw(losses.log_uniform(np.arange(num_classes)), num_sampled, seed)
    with tf.compat.v1.Session() as session:
        call = session.make_callable(list(sample), [seed])
        found = [call([7, index]) for index in range(repetitions)]
    return tuple(np.stack(part) for part in zip(*found))


def test_frequent_classes_have_the_probabilities_of_the_log_uniform_distribution():
    # log 2 / log 4, log 1.5 / log 4 and log(4/3) / log 4, for the ranks of classes 2, 0 and 1.
    found = losses.log_uniform([2, 0, 1])
    np.testing.assert_allclose(found, [0.29248, 0.20752, 0.5], atol=1e-5)
    assert losses.log_uniform(np.arange(8000)).sum() == pytest.approx(1, abs=1e-5)


def test_single_draws_are_log_uniform():
    classes, _ = draws_of(10, 1, 4000)
    expected = 4000 * losses.log_uniform(np.arange(10))
    deviations = np.square(np.bincount(classes[:, 0], minlength=10) - expected) / expected
    assert deviations.sum() < 27.9  # chi-square with 9 degrees of freedom: p = 0.001


def test_classes_are_distinct_and_sums_over_them_unbiased():
    classes, expected = draws_of(40, 12, 3000)
    assert all(len(set(row)) == 12 for row in classes)
    # Being in the sample over the expected count is 1 on average, so a sum over the sample is unbiased.
    weights = np.zeros([3000, 40])
    np.put_along_axis(weights, classes, np.take_along_axis(1 / expected, classes, axis=1), axis=1)
    deviations = (weights.mean(axis=0) - 1) / (weights.std(axis=0) / 3000**0.5)
    assert np.abs(deviations).max() < 4


def test_draws_depend_on_the_step_alone():
    probabilities = losses.log_uniform(np.arange(1000))

    def draw(seed):
        with tf.Graph().as_default():  # a restarted training has a new graph
            return [part.tolist() for part in evaluate(losses.draw(probabilities, 20, tf.constant(seed)))]

    seed, following = np.int64([5, 9]), np.int64([5, 10])
    assert draw(seed) == draw(seed)
    assert draw(seed)[0] != draw(following)[0] != draw(np.int64([6, 9]))[0]


@pytest.mark.parametrize("name", PEERS)
def test_losses_and_gradients_are_those_of_tensorflow(name):
    rng = np.random.default_rng(1)
    scorer, labels = make_scorer(rng), make_labels(rng)
    probabilities = losses.log_uniform(rng.permutation(NUM_CLASSES))
    sample = losses.SampledClasses(
        *map(tf.constant, evaluate(losses.draw(probabilities, 12, tf.constant([1, 2], tf.int64))))
    )
    ours = losses.SAMPLED[name](scorer, labels, tf.constant(WEIGHTS), sample)
    flat = tf.cast(tf.reshape(labels, [-1, 1]), tf.int64)
    # In TensorFlow's NCE, logits of zero do not mean a probability of 1 / num_classes.
    factor = {"sampled": 1, "nce": NUM_CLASSES}[name]
    theirs = PEERS[name](
        scorer.vectors,
        scorer.biases,
        flat,
        tf.reshape(scorer.hidden, [-1, UNITS]),
        12,
        NUM_CLASSES,
        sampled_values=(
            tf.cast(sample.classes, tf.int64),
            tf.gather(factor * sample.expected_counts, flat),
            tf.gather(factor * sample.expected_counts, sample.classes),
        ),
        remove_accidental_hits=True,
    )
    theirs = tf.reshape(theirs, [BATCH, LENGTH]) * WEIGHTS
    hits = np.isin(evaluate(labels), evaluate(sample.classes)) & (WEIGHTS > 0)
    assert hits.any() and not hits.all()
    gradients = [
        [tf.convert_to_tensor(each) for each in tf.gradients(loss, list(scorer))] for loss in (ours, theirs)
    ]
    mine, peers = evaluate([(ours, *gradients[0]), (theirs, *gradients[1])])
    for got, wanted in zip(mine, peers):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_a_sample_of_all_classes_gives_the_full_softmax_and_a_larger_one_comes_closer():
    rng = np.random.default_rng(2)
    scorer, labels = make_scorer(rng), make_labels(rng)
    full = losses.cross_entropy(acoustic.classify(scorer), labels, tf.constant(WEIGHTS))
    seed = tf.compat.v1.placeholder(tf.int64, [2])
    probabilities = losses.log_uniform(np.arange(NUM_CLASSES))
    sums = [tf.reduce_sum(full)]
    for size in (3, 8, 20, NUM_CLASSES):
        sample = losses.draw(probabilities, size, seed)
        sums.append(tf.reduce_sum(losses.sampled_softmax(scorer, labels, tf.constant(WEIGHTS), sample)))
    with tf.compat.v1.Session() as session:
        call = session.make_callable(sums, [seed])
        wanted, *means = np.mean([call([3, index]) for index in range(300)], axis=0)
    assert means == sorted(means)
    assert means[-1] == pytest.approx(wanted, abs=1e-4)
    assert abs(means[2] - wanted) < 0.5 * abs(means[0] - wanted)


@pytest.mark.parametrize("name", PEERS)
def test_a_label_in_the_sample_is_not_among_the_others(name):
    """If the label is the whole sample, there is no other class to compare it with."""
    scorer = make_scorer(np.random.default_rng(3))
    sample = losses.SampledClasses(tf.constant([4]), tf.ones([NUM_CLASSES]))
    found = losses.SAMPLED[name](scorer, tf.fill([BATCH, LENGTH], 4), tf.constant(WEIGHTS), sample)
    logits = acoustic.classify(scorer)[..., 4] - np.float32(np.log(NUM_CLASSES))
    alone = {"sampled": 0.0, "nce": tf.nn.softplus(-logits) * WEIGHTS}[name]
    np.testing.assert_allclose(*evaluate([found, alone + tf.zeros_like(found)]), atol=1e-6)


@pytest.mark.parametrize("name", PEERS)
def test_nan_at_a_position_of_weight_zero_changes_nothing(name):
    rng = np.random.default_rng(4)
    scorer, labels = make_scorer(rng), make_labels(rng)
    sample = losses.draw(losses.log_uniform(np.arange(NUM_CLASSES)), 5, tf.constant([1, 1], tf.int64))
    found = []
    for padding in (0.0, np.nan):
        hidden = tf.where(WEIGHTS[..., None] > 0, scorer.hidden, padding)
        loss = losses.SAMPLED[name](scorer._replace(hidden=hidden), labels, tf.constant(WEIGHTS), sample)
        found += [
            loss,
            *map(tf.convert_to_tensor, tf.gradients(loss, [hidden, scorer.vectors, scorer.biases])),
        ]
    values = evaluate(found)
    for got, wanted in zip(values[4:], values[:4]):
        np.testing.assert_array_equal(got, wanted)
