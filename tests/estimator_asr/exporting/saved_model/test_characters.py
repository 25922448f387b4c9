"""Confidences of characters; times of syllables, merged from those of initials and finals."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.search import token_times
from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.saved_model import characters


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
            run(characters.calibrate(tf.constant([0.5, 0.8]), config)), expected, rtol=1e-5
        )


def test_the_confidence_of_a_certain_character_is_finite():
    with tf.Graph().as_default():
        found = run(characters.calibrate(tf.constant([0.0, 1.0]), config_lib.DecodeConfig()))
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
        found, texts = run((characters.merge(times, tf.constant([3]), places), syllables.strings))
    assert texts.tolist() == [[b"zhong1", b"you3"]]
    assert found.starts.tolist() == [[2, 9]] and found.ends.tolist() == [[7, 10]]
    np.testing.assert_allclose(found.probs, [[0.6, 0.8]], rtol=1e-6)
