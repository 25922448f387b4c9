import numpy as np
import pytest
import tensorflow as tf
from graph_variables import run

from estimator_asr.models.tasks import metrics


def pad(rows, value):
    width = max(map(len, rows), default=0)
    ids = np.int32([[*row, *[value] * (width - len(row))] for row in rows]).reshape(len(rows), width)
    return ids, np.int32([len(row) for row in rows])


def evaluate_edits(hypotheses, references):
    return run(lambda: metrics.edit_ratio(*pad(hypotheses, -1), *pad(references, 0)))


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
    ids, counts = np.int32([[0, 1], [0, 0], [2, 0]]), np.int32([2, 0, 2])
    assert run(lambda: metrics.unknown_fraction(ids, counts)) == (2, 4)


def test_a_batch_without_any_hypothesis():
    assert evaluate_edits([[], []], [[1, 2], [3]]) == (3, 3)
    assert evaluate_edits([[], []], [[], []]) == (0, 0)


def test_the_metric_is_a_ratio_of_sums_not_a_mean_of_ratios():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        counts = [tf.compat.v1.placeholder(tf.float32, []) for _ in range(2)]
        value, update = metrics.Ratio(*counts).metric()
        session.run(tf.compat.v1.local_variables_initializer())
        for pair in ((1, 2), (0, 0), (3, 0), (3, 98)):  # three insertions against an empty reference count
            session.run(update, dict(zip(counts, pair)))
        assert abs(session.run(value) - 0.07) < 1e-6


def test_a_ratio_whose_denominator_is_zero_is_zero():
    assert run(lambda: metrics.Ratio(tf.constant(0.0), tf.constant(0.0)).value()) == 0


def test_the_length_ratio_is_a_ratio_of_sums():
    assert run(lambda: metrics.length_ratio(tf.constant([2, 0, 1]), tf.constant([2, 3, 1]))) == (3, 6)


@pytest.mark.parametrize(
    "hypotheses, num_ids, references, num_references, expected",
    [
        # Hypotheses 1, 3 and 5 are equal; references 1 and 3 are equal too, but reference 5 differs.
        (
            *([[5, 6], [5, 9], [5, 6], [7, 9], [5, 6]], [2, 1, 2, 1, 2]),
            *([[5, 6], [1, 9], [5, 6], [7, 9], [8, 0]], [2, 1, 2, 1, 1], (3, 5)),
        ),
        # Empty hypotheses are equal; utterances without a reference do not count.
        ([[], [], []], [0, 0, 0], [[1], [2], [0]], [1, 1, 0], (2, 2)),
        ([[], [], []], [0, 0, 0], [[1], [1], [0]], [1, 1, 0], (0, 2)),
    ],
)
def test_hypotheses_shared_by_different_references_count_as_repeated(
    hypotheses, num_ids, references, num_references, expected
):
    arguments = hypotheses, num_ids, references, num_references
    assert run(lambda: metrics.repeated_fraction(*map(np.int32, arguments))) == expected


def test_zeros_are_counted_in_dense_gradients():
    def count(*gradients):
        return run(lambda: metrics.zero_fraction([(gradient(), None) for gradient in gradients]))

    def rows():
        return tf.IndexedSlices(tf.zeros([1, 9]), tf.constant([0]), tf.constant([9, 9]))

    dense = [[0.0, 1e-30], [0.0, -2.0]]
    assert count(lambda: tf.constant(dense), rows, lambda: tf.constant([0.0])) == (3, 5)
    assert count(rows) == (0, 0)
