"""Ranking of transcripts, confidences of characters, and times of syllables."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.search import token_times
from estimator_asr.experiment import config as config_lib
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


def run(tensors):
    with tf.compat.v1.Session() as session:
        return session.run(tensors)


@pytest.mark.parametrize(
    ("scale", "offset", "expected"),
    [(1.0, 0.0, [0.5, 0.8]), (2.0, 0.0, [0.5, 16 / 17]), (1.0, np.log(3), [0.75, 12 / 13])],
)
def test_confidence_is_linear_in_the_log_odds(scale, offset, expected):
    """The odds 1 and 4 are squared, and multiplied by 3."""
    config = config_lib.DecodeConfig(confidence_scale=scale, confidence_offset=offset)
    with tf.Graph().as_default():
        np.testing.assert_allclose(
            run(ranking.calibrate(tf.constant([0.5, 0.8]), config)), expected, rtol=1e-5
        )


def test_the_confidence_of_a_certain_character_is_finite():
    with tf.Graph().as_default():
        found = run(ranking.calibrate(tf.constant([0.0, 1.0]), config_lib.DecodeConfig()))
    assert np.all(np.isfinite(found)) and found[0] < 1e-5 and found[1] > 0.999


def test_letters_among_initials_and_finals_become_lower_case():
    """Tokens A, g, ua1, É, <unk> become a, gua1, é, <unk>."""
    with tf.Graph().as_default():
        strings = tf.constant([["A", "g", "ua1", "É", "<unk>"]])
        tokens = sequences.Sequences(strings, tf.constant([5]), tf.zeros([1]), tf.ones([1, 5]))
        syllables, places = run(sequences.join_initials(tokens))
    texts = [text.decode() for text in syllables.strings[0]]
    assert texts == ["a", "gua1", "é", "<unk>"] and places.tolist() == [[0, 1, 1, 2, 3]]


def test_a_syllable_lasts_from_its_initial_to_its_final():
    """The syllables zhong1 and iou3, and padding."""
    with tf.Graph().as_default():
        strings = tf.constant([["zh", "ong1", "iou3", ""]])
        tokens = sequences.Sequences(strings, tf.constant([3]), tf.zeros([1]), tf.ones([1, 4]))
        syllables, places = sequences.join_initials(tokens)
        times = token_times.TokenTimes(
            tf.constant([[2, 5, 9, 0]]), tf.constant([[3, 7, 10, 0]]), tf.constant([[0.9, 0.6, 0.8, 0.0]])
        )
        found, texts = run((ranking.merge(times, tf.constant([3]), places), syllables.strings))
    assert texts.tolist() == [[b"zhong1", b"you3"]]
    assert found.starts.tolist() == [[2, 9]] and found.ends.tolist() == [[7, 10]]
    np.testing.assert_allclose(found.probs, [[0.6, 0.8]], rtol=1e-6)
