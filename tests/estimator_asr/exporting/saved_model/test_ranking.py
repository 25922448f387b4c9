"""Ranking of transcripts: hypotheses with the same text count together."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.exporting.saved_model import ranking


def rank(probs, texts):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with np.errstate(divide="ignore"):
            found = ranking.rank(tf.constant(np.log(probs), tf.float32), tf.constant(texts))
        return session.run(found)


def test_equal_transcripts_count_together():
    """The most probable hypothesis loses against a text with two pronunciations that sum to more."""
    found = rank([[0.4, 0.3, 0.2, 0.0]], [["a", "b", "b", ""]])
    assert found.transcripts.tolist() == [[b"b", b"a", b"", b""]]
    np.testing.assert_allclose(np.exp(found.scores), [[0.5, 0.4, 0, 0]], rtol=1e-5)
    assert found.rows.tolist() == [1]  # the likelier pronunciation of b


def test_rows_are_numbered_through_the_batch():
    found = rank([[0.6, 0.4], [0.2, 0.8]], [["a", "b"], ["c", "d"]])
    assert found.rows.tolist() == [0, 3]
    assert found.transcripts[:, 0].tolist() == [b"a", b"d"]


@pytest.mark.parametrize("probs", [[np.nan, 0.3, 0.2], [0.3, np.nan, 0.2], [0.2, 0.3, np.nan]])
def test_a_hypothesis_with_score_nan_is_ignored(probs):
    found = rank([probs], [["a", "b", "c"]])
    expected = sorted((p, t) for p, t in zip(probs, "abc") if p == p)[::-1]
    assert found.transcripts.tolist() == [[*(t.encode() for _, t in expected), b""]]
    np.testing.assert_allclose(np.exp(found.scores), [[0.3, 0.2, 0.0]], rtol=1e-5)


def test_an_utterance_without_hypotheses_gets_its_first_row():
    found = rank([[0.6, 0.4], [np.nan, np.nan]], [["a", "b"], ["c", "d"]])
    assert found.rows.tolist() == [0, 2]
    assert found.transcripts.tolist() == [[b"a", b"b"], [b"", b""]]
    assert found.scores[1].tolist() == [np.finfo(np.float32).min] * 2


def test_an_empty_transcript_can_win():
    found = rank([[0.9, 0.1, 0.0]], [["", "a", ""]])
    assert found.transcripts.tolist() == [[b"", b"a", b""]]
    assert found.scores[0, 0] == pytest.approx(math.log(0.9), rel=1e-5)
    assert found.scores[0, 2] == np.finfo(np.float32).min  # JSON has no infinity
