import math

import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import errors, ranking


def test_probabilities_of_equal_texts_are_added():
    """A text with two hypotheses of probability 0.3 ranks above a text with one of 0.4."""
    ranked = ranking.rank(np.log(np.float32([0.4, 0.3, 0.3])), ["a", "b", "b"], "m")
    assert [(each.transcript, each.place) for each in ranked] == [("b", 1), ("a", 0)]
    assert [math.exp(each.score) for each in ranked] == pytest.approx([0.6, 0.4])


def test_scores_that_are_not_finite():
    (found,) = ranking.rank(np.float32([np.nan, -np.inf, -1, np.nan]), ["a", "b", "c", "c"], "m")
    assert found == ("c", -1, 2)
    with pytest.raises(errors.UserError) as raised:
        ranking.rank(np.float32([np.nan, -np.inf]), ["a", "b"], "m")
    assert str(raised.value) == "m: no transcript has a finite score; export the model again"


def test_the_order_equals_that_of_the_graph():
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.exporting.saved_model import ranking as graph_ranking

    rng = np.random.default_rng(3)
    scores = np.float32(rng.normal(size=[8, 12]) * 3)
    texts = rng.choice(["a", "b", "c", "d", "e"], [8, 12])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        expected = session.run(graph_ranking.rank(tf.constant(scores), tf.constant(texts.astype(object))))
    for i, row in enumerate(expected.rows):
        ranked = ranking.rank(scores[i], texts[i].tolist(), "m")
        assert ranked[0].place == row - 12 * i
        found = [text.decode() for text in expected.transcripts[i] if text]
        assert [each.transcript for each in ranked] == found
        totals = expected.scores[i][: len(found)]
        np.testing.assert_allclose([each.score for each in ranked], totals, atol=1e-5)


def test_confidences_equal_those_of_the_export():
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.experiment import config
    from estimator_asr.exporting.saved_model import ranking as graph_ranking

    settings = {"confidence_scale": 1.7, "confidence_offset": -0.4}
    probs = np.float32([0, 1e-7, 0.1, 0.5, 0.99, 1])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        expected = session.run(graph_ranking.calibrate(tf.constant(probs), config.DecodeConfig(**settings)))
    found = ranking.calibrate(probs, runtime_models.make_decode(**settings))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.dtype == np.float32
    assert ranking.calibrate(np.float32(0.25), runtime_models.make_decode()) == pytest.approx(0.25)
