from __future__ import annotations

import tensorflow as tf

from estimator_asr.models.tasks import metrics


def evaluate_edits(hypotheses, references):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:

        def pad(rows, value):
            width = max([len(row) for row in rows], default=0)
            padded = [list(row) + [value] * (width - len(row)) for row in rows]
            ids = tf.reshape(tf.constant(padded, tf.int32), [len(rows), width])
            return ids, tf.constant([len(row) for row in rows], tf.int32)

        return session.run(metrics.edit_ratio(*pad(hypotheses, -1), *pad(references, 0)))


def test_edits_of_hand_made_pairs():
    pairs = [
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 3], [1, 2, 3], 1),
        ([1, 2, 2, 3], [1, 2, 3], 1),
        ([4, 2, 3], [1, 2, 3], 1),
        ([], [1, 2], 2),
        ([1, 2], [], 2),
        ([], [], 0),
    ]
    edits, length = evaluate_edits([p[0] for p in pairs], [p[1] for p in pairs])
    assert (edits, length) == (sum(p[2] for p in pairs), sum(len(p[1]) for p in pairs))


def test_an_unknown_reference_equals_nothing():
    assert evaluate_edits([[0], [0, 1], [2, 0]], [[0], [0, 1], [2, 0, 0]]) == (1 + 1 + 2, 6)
    with tf.Graph().as_default():
        unknown = metrics.unknown_fraction(tf.constant([[0, 1], [0, 0], [2, 0]]), tf.constant([2, 0, 2]))
        assert run(unknown) == (2, 4)


def test_a_batch_without_any_hypothesis():
    assert evaluate_edits([[], []], [[1, 2], [3]]) == (3, 3)
    assert evaluate_edits([[], []], [[], []]) == (0, 0)


def test_the_metric_is_a_ratio_of_sums_not_a_mean_of_ratios():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        numerator, denominator = (
            tf.compat.v1.placeholder(tf.float32, []),
            tf.compat.v1.placeholder(tf.float32, []),
        )
        value, update = metrics.Ratio(numerator, denominator).metric()
        session.run(tf.compat.v1.local_variables_initializer())
        for pair in ((1, 2), (0, 0), (3, 0), (3, 98)):  # three insertions against an empty reference count
            session.run(update, {numerator: pair[0], denominator: pair[1]})
        assert abs(session.run(value) - 0.07) < 1e-6


def test_a_ratio_whose_denominator_is_zero_is_zero():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert session.run(metrics.Ratio(tf.constant(0.0), tf.constant(0.0)).value()) == 0


def run(tensors):
    with tf.compat.v1.Session() as session:
        return session.run(tensors)


def test_the_length_ratio_is_a_ratio_of_sums():
    with tf.Graph().as_default():
        assert run(metrics.length_ratio(tf.constant([2, 0, 1]), tf.constant([2, 3, 1]))) == (3, 6)


def test_hypotheses_shared_by_different_references_count_as_repeated():
    hypotheses = [[5, 6], [5, 9], [5, 6], [7, 9], [5, 6]]
    references = [[5, 6], [1, 9], [5, 6], [7, 9], [8, 0]]
    with tf.Graph().as_default():
        values = tf.constant(hypotheses), tf.constant([2, 1, 2, 1, 2])
        fraction = metrics.repeated_fraction(*values, tf.constant(references), tf.constant([2, 1, 2, 1, 1]))
        # The first, third and fifth are alike, of which the first and third have equal references too.
        assert run(fraction) == (3, 5)


def test_empty_hypotheses_are_equal_and_padded_utterances_do_not_count():
    with tf.Graph().as_default():
        nothing = tf.zeros([3, 0], tf.int32), tf.zeros([3], tf.int32)
        assert run(
            metrics.repeated_fraction(*nothing, tf.constant([[1], [2], [0]]), tf.constant([1, 1, 0]))
        ) == (
            2,
            2,
        )
        assert run(
            metrics.repeated_fraction(*nothing, tf.constant([[1], [1], [0]]), tf.constant([1, 1, 0]))
        ) == (
            0,
            2,
        )


def test_zeros_are_counted_in_dense_gradients():
    with tf.Graph().as_default():
        dense = tf.constant([[0.0, 1e-30], [0.0, -2.0]])
        rows = tf.IndexedSlices(tf.zeros([1, 9]), tf.constant([0]), tf.constant([9, 9]))
        assert run(metrics.zero_fraction([(dense, None), (rows, None), (tf.constant([0.0]), None)])) == (3, 5)
        assert run(metrics.zero_fraction([(rows, None)])) == (0, 0)
