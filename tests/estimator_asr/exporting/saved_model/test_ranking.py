"""Ranking of transcripts, confidences of characters, and times of syllables."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.search import token_times
from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.saved_model import ranking


@pytest.fixture
def rank(session):
    def rank_texts(probs, texts):
        with np.errstate(divide="ignore"):
            scores = np.log(probs)
        return session.run(ranking.rank(tf.constant(scores, tf.float32), tf.constant(texts)))

    return rank_texts


def test_equal_transcripts_count_together(rank):
    """A text whose two pronunciations have a higher total beats the most probable hypothesis."""
    found = rank([[0.4, 0.3, 0.2, 0.0]], [["a", "b", "b", ""]])
    assert found.transcripts.tolist() == [[b"b", b"a", b"", b""]]
    np.testing.assert_allclose(np.exp(found.scores), [[0.5, 0.4, 0, 0]], rtol=1e-5)
    assert found.rows.tolist() == [1]  # the likelier pronunciation of b


def test_rows_are_numbered_through_the_batch(rank):
    found = rank([[0.6, 0.4], [0.2, 0.8]], [["a", "b"], ["c", "d"]])
    assert found.rows.tolist() == [0, 3]
    assert found.transcripts[:, 0].tolist() == [b"a", b"d"]


@pytest.mark.parametrize("probs", [[np.nan, 0.3, 0.2], [0.3, np.nan, 0.2], [0.2, 0.3, np.nan]])
def test_a_hypothesis_with_score_nan_is_ignored(rank, probs):
    found = rank([probs], [["a", "b", "c"]])
    expected = sorted((p, t) for p, t in zip(probs, "abc") if p == p)[::-1]
    assert found.transcripts.tolist() == [[*(t.encode() for _, t in expected), b""]]
    np.testing.assert_allclose(np.exp(found.scores), [[0.3, 0.2, 0.0]], rtol=1e-5)


def test_an_utterance_without_hypotheses_gets_its_first_row(rank):
    found = rank([[0.6, 0.4], [np.nan, np.nan]], [["a", "b"], ["c", "d"]])
    assert found.rows.tolist() == [0, 2]
    assert found.transcripts.tolist() == [[b"a", b"b"], [b"", b""]]
    assert found.scores[1].tolist() == [np.finfo(np.float32).min] * 2


def test_an_empty_transcript_can_win(rank):
    found = rank([[0.9, 0.1, 0.0]], [["", "a", ""]])
    assert found.transcripts.tolist() == [[b"", b"a", b""]]
    assert found.scores[0, 0] == pytest.approx(math.log(0.9), rel=1e-5)
    assert found.scores[0, 2] == np.finfo(np.float32).min  # JSON has no infinity


@pytest.mark.parametrize(
    ("scale", "offset", "expected"),
    [(1.0, 0.0, [0.5, 0.8]), (2.0, 0.0, [0.5, 16 / 17]), (1.0, np.log(3), [0.75, 12 / 13])],
)
def test_confidence_is_linear_in_the_log_odds(session, scale, offset, expected):
    """The scale 2 squares the odds 1 and 4, and the offset log 3 multiplies them by 3."""
    config = config_lib.DecodeConfig(confidence_scale=scale, confidence_offset=offset)
    found = session.run(ranking.calibrate(tf.constant([0.5, 0.8]), config))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_confidence_of_a_certain_character_is_finite(session):
    found = session.run(ranking.calibrate(tf.constant([0.0, 1.0]), config_lib.DecodeConfig()))
    assert np.all(np.isfinite(found)) and found[0] < 1e-5 and found[1] > 0.999


def test_letters_among_initials_and_finals_become_lower_case(session):
    strings = tf.constant([["A", "g", "ua1", "É", "<unk>"]])
    tokens = sequences.Sequences(strings, tf.constant([5]), tf.zeros([1]), tf.ones([1, 5]))
    syllables, places = session.run(sequences.join_initials(tokens))
    texts = [text.decode() for text in syllables.strings[0]]
    assert texts == ["a", "gua1", "é", "<unk>"] and places.tolist() == [[0, 1, 1, 2, 3]]


def test_a_syllable_lasts_from_its_initial_to_its_final(session):
    strings = tf.constant([["zh", "ong1", "iou3", ""], ["a1", "", "", ""]])
    counts = tf.constant([3, 1])
    syllables, places = sequences.join_initials(
        sequences.Sequences(strings, counts, tf.zeros([2]), tf.ones([2, 4]))
    )
    starts, ends = [[2, 5, 9, 0], [4, 0, 0, 0]], [[3, 7, 10, 0], [6, 0, 0, 0]]
    probs = [[0.9, 0.6, 0.8, 0.0], [0.7, 0.0, 0.0, 0.0]]
    times = token_times.TokenTimes(*map(tf.constant, (starts, ends, probs)))
    found, texts = session.run((ranking.merge(times, counts, places), syllables.strings))
    assert texts.tolist() == [[b"zhong1", b"you3"], [b"a1", b""]]
    assert found.starts.tolist() == [[2, 9], [4, 0]] and found.ends.tolist() == [[7, 10], [6, 0]]
    np.testing.assert_allclose(found.probs, [[0.6, 0.8], [0.7, 0.0]], rtol=1e-6)
