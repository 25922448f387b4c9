"""Greedy decoding against paths worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import decoders

BLANK = 2


def decode(paths, num_frames, confidence=5.0):
    """Decodes logits whose best classes are the paths."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = tf.constant(np.eye(BLANK + 1)[paths] * confidence, tf.float32)
        return session.run(decoders.greedy(None, logits, tf.constant(num_frames)))


@pytest.mark.parametrize(
    ("path", "tokens"),
    [
        ([0, 0, 1, 1], [0, 1]),
        ([0, BLANK, 0, 1], [0, 0, 1]),
        ([BLANK, 1, BLANK, BLANK], [1]),
        ([1, 1, 1, 1], [1]),
        ([BLANK] * 4, []),
    ],
)
def test_repeats_are_merged_and_blanks_dropped(path, tokens):
    hypotheses = decode([path], [4])
    assert hypotheses.num_tokens.tolist() == [[len(tokens)]]
    assert hypotheses.ids[0].tolist() == [tokens]


def test_frames_beyond_the_length_are_ignored():
    hypotheses = decode([[0, 1, 0, 1], [0, 1, 0, 1]], [2, 3])
    assert hypotheses.num_tokens.tolist() == [[2], [3]]
    assert hypotheses.ids.tolist() == [[[0, 1, -1]], [[0, 1, 0]]]


def test_score_is_the_log_probability_of_the_best_path():
    hypotheses = decode([[0, BLANK, 1], [0, BLANK, 1]], [3, 1])
    frame = 5.0 - np.log(np.exp(5.0) + 2)
    np.testing.assert_allclose(hypotheses.scores, [[3 * frame], [frame]], rtol=1e-4)


def test_greedy_agrees_with_tensorflows_op():
    logits = np.random.default_rng(1).normal(size=[4, 9, 6]).astype(np.float32)
    lengths = np.array([9, 5, 1, 7], np.int32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ours = session.run(decoders.greedy(None, tf.constant(logits), tf.constant(lengths)))
        decoded, _ = tf.nn.ctc_greedy_decoder(tf.transpose(logits, [1, 0, 2]), lengths)
        theirs = session.run(tf.sparse.to_dense(decoded[0], default_value=-1))
    np.testing.assert_array_equal(ours.ids[:, 0], theirs)
