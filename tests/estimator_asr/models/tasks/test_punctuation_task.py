"""The punctuation task: its loss, its error rate, and the marks that it chooses."""

import types

import numpy as np
import pytest
import tensorflow as tf
from graph_variables import run

from estimator_asr.models import losses
from estimator_asr.models.tasks import punctuation_task

TASK = punctuation_task.Punctuation(types.SimpleNamespace(characters=types.SimpleNamespace(size=5)))
COMMA, STOP, QUESTION, SHOUT = 1, 2, 3, 4


def make_logits(best):
    return np.eye(8, dtype=np.float32)[best] * 10


def make_labels(mark_ids, counts):
    return {"mark_ids": np.int32(mark_ids), "num_marks": np.int32(counts)}


def test_the_error_rate_is_one_minus_f1_of_commas_stops_and_questions():
    best = [[COMMA, 0, STOP, SHOUT], [STOP, QUESTION, COMMA, COMMA]]
    labels = [[COMMA, COMMA, QUESTION, 0], [STOP, QUESTION, 0, 0]]
    ratios = run(lambda: TASK.metrics(make_logits(best), {}, make_labels(labels, [4, 2]), None))
    # Four are found (the last two of the second text are padding), five expected, three right.
    assert ratios["precision"] == (3, 4)
    assert ratios["recall"] == (3, 5)
    assert ratios["mark-error-rate"] == (3, 9)
    assert 1 - 3 / 9 == pytest.approx(2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))


def test_the_loss_is_the_cross_entropy_of_real_characters():
    labels = make_labels([[COMMA, 0], [STOP, STOP]], [2, 1])
    found = run(lambda: TASK.losses(tf.zeros([2, 2, 8]), {}, labels, True))
    assert found.num_labels == 3
    assert found.total == pytest.approx(3 * np.log(8), rel=1e-6)


def test_the_best_marks_are_chosen_and_padding_is_marked():
    logits, features = make_logits([[0, COMMA], [STOP, STOP]]), {"num_characters": np.int32([2, 1])}

    def build():
        best = TASK.decode(logits, features)
        return best.ids, best.scores, best.character_probs

    ids, scores, probs = run(build)
    assert ids.tolist() == [[0, COMMA], [STOP, -1]]
    np.testing.assert_allclose(scores, np.log(probs).sum(axis=1), atol=1e-6)
    assert 0.999 < probs.min()


@pytest.mark.parametrize("characters, mark_ids", [([[5]], [[0]]), ([[1]], [[8]])])
def test_ids_out_of_range_stop_the_step(characters, mark_ids):
    def build():
        features = {"character_ids": tf.constant(characters), "num_characters": tf.constant([1])}
        return TASK.check_ids(features, {"mark_ids": tf.constant(mark_ids), "num_marks": tf.constant([1])})

    with pytest.raises(tf.errors.InvalidArgumentError, match=losses.WRONG_LABEL):
        run(build)
