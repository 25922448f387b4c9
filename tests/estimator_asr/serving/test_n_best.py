"""Ranking of transcripts: equal ones count together."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.serving import n_best


def rank(probs, texts):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with np.errstate(divide="ignore"):
            ranking = n_best.rank(tf.constant(np.log(probs), tf.float32), tf.constant(texts))
        return session.run(ranking)


def test_equal_transcripts_count_together():
    """The one that is likeliest in one pronunciation loses against two pronunciations of another."""
    ranking = rank([[0.4, 0.3, 0.2, 0.0]], [["a", "b", "b", ""]])
    assert ranking.transcripts.tolist() == [[b"b", b"a", b"", b""]]
    np.testing.assert_allclose(np.exp(ranking.scores), [[0.5, 0.4, 0, 0]], rtol=1e-5)
    assert ranking.rows.tolist() == [1]  # the likelier pronunciation of b


def test_rows_count_through_the_batch():
    ranking = rank([[0.6, 0.4], [0.2, 0.8]], [["a", "b"], ["c", "d"]])
    assert ranking.rows.tolist() == [0, 3]
    assert ranking.transcripts[:, 0].tolist() == [b"a", b"d"]


def test_an_empty_transcript_is_one_too():
    ranking = rank([[0.9, 0.1, 0.0]], [["", "a", ""]])
    assert ranking.transcripts.tolist() == [[b"", b"a", b""]]
    assert ranking.scores[0, 0] == pytest.approx(math.log(0.9), rel=1e-5)
    assert ranking.scores[0, 2] == np.finfo(np.float32).min  # JSON has no infinity
