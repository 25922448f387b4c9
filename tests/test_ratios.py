from __future__ import annotations

import tensorflow as tf

from estimator_asr.training import ratios


def evaluate_edits(hypotheses, references):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:

        def pad(rows, value):
            width = max([len(row) for row in rows], default=0)
            padded = [list(row) + [value] * (width - len(row)) for row in rows]
            ids = tf.reshape(tf.constant(padded, tf.int32), [len(rows), width])
            return ids, tf.constant([len(row) for row in rows], tf.int32)

        return session.run(ratios.edit_ratio(*pad(hypotheses, -1), *pad(references, 0)))


def test_edits_of_hand_made_pairs():
    pairs = [
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 3], [1, 2, 3], 1),
        ([1, 2, 2, 3], [1, 2, 3], 1),
        ([4, 2, 3], [1, 2, 3], 1),
        ([], [1, 2], 2),
        ([1, 2], [], 2),
        ([], [], 0),
        ([0], [0, 0], 1),
    ]
    edits, length = evaluate_edits([p[0] for p in pairs], [p[1] for p in pairs])
    assert (edits, length) == (sum(p[2] for p in pairs), sum(len(p[1]) for p in pairs))


def test_a_batch_without_any_hypothesis():
    assert evaluate_edits([[], []], [[1, 2], [3]]) == (3, 3)
    assert evaluate_edits([[], []], [[], []]) == (0, 0)


def test_the_metric_is_a_ratio_of_sums_not_a_mean_of_ratios():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        numerator, denominator = (
            tf.compat.v1.placeholder(tf.float32, []),
            tf.compat.v1.placeholder(tf.float32, []),
        )
        value, update = ratios.Ratio(numerator, denominator).metric()
        session.run(tf.compat.v1.local_variables_initializer())
        for pair in ((1, 2), (0, 0), (3, 0), (3, 98)):  # three insertions where nothing was said count
            session.run(update, {numerator: pair[0], denominator: pair[1]})
        assert abs(session.run(value) - 0.07) < 1e-6


def test_the_value_of_nothing_is_zero():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert session.run(ratios.Ratio(tf.constant(0.0), tf.constant(0.0)).value()) == 0
