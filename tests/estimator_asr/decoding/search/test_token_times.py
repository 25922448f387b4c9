"""Times of tokens against the alignment in numpy and against paths worked out by hand."""

import numpy as np
import numpy_alignment
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import token_times

BLANK = 4


def align(log_probs, num_frames, ids, num_tokens, function=token_times.align):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = (
            tf.constant(log_probs, tf.float32),
            *(tf.constant(x, tf.int32) for x in (num_frames, ids, num_tokens)),
        )
        return session.run(function(*tensors))


def log_softmax(logits):
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def test_spans_and_probabilities_of_a_path():
    path = [BLANK, 0, 0, BLANK, 0, 2, BLANK, BLANK]
    times = align(log_softmax(6 * np.eye(5)[[path]]), [8], [[0, 0, 2]], [3])
    assert times.starts.tolist() == [[1, 4, 5]]
    assert times.ends.tolist() == [[3, 5, 6]]
    np.testing.assert_allclose(times.probs, [[np.exp(6) / (np.exp(6) + 4)] * 3], rtol=1e-5)


@pytest.mark.long
def test_equal_to_the_alignment_in_numpy_in_any_batch():
    rng = np.random.default_rng(1)
    for _ in range(10):
        log_probs = log_softmax(3 * rng.normal(size=[7, 16, 5]))
        num_frames, num_tokens = rng.integers(7, 17, 7), rng.integers(0, 4, 7)
        ids = rng.integers(0, 4, [7, 3])
        times = align(log_probs, num_frames, ids, num_tokens)
        for i, (frames, tokens) in enumerate(zip(num_frames, num_tokens)):
            spans = numpy_alignment.align(log_probs[i, :frames], ids[i, :tokens], BLANK)
            assert times.starts[i, :tokens].tolist() == [span.first for span in spans]
            assert times.ends[i, :tokens].tolist() == [span.last + 1 for span in spans]
            best = [log_probs[i, a : b + 1, token].max() for (a, b), token in zip(spans, ids[i])]
            np.testing.assert_allclose(times.probs[i, :tokens], np.exp(best), rtol=1e-5)
            assert not np.any(times.ends[i, tokens:]) and not np.any(times.probs[i, tokens:])


@pytest.mark.parametrize("num_frames", [0, 3])
def test_an_utterance_without_tokens_has_times_of_zero(num_frames):
    times = align(np.zeros([1, 3, 5]), [num_frames], [[-1, -1]], [0])
    assert times.starts.tolist() == times.ends.tolist() == [[0, 0]]


def test_a_batch_without_any_tokens():
    times = align(np.zeros([2, 3, 5]), [3, 0], np.zeros([2, 0]), [0, 0])
    assert times.starts.shape == times.probs.shape == (2, 0)


@pytest.mark.long
def test_scores_of_tokens_that_are_not_the_most_probable_ones():
    """The frames are 0, blank, 2, 1, blank; the tokens 0 1 leave out 2, and no frame contains 3."""
    log_probs = log_softmax(6 * np.eye(5)[[[0, BLANK, 2, 1, BLANK]]])
    found = align(log_probs, [5], [[0, 1]], [2], token_times.align_and_score)
    assert found.times.ends.tolist() == [[1, 4]]
    np.testing.assert_allclose(found.scores, [[0, -6]], atol=1e-5)
    found = align(log_probs, [5], [[0, 3, 2, 1]], [4], token_times.align_and_score)
    np.testing.assert_allclose(found.scores, [[0, -6, 0, 0]], atol=1e-5)
    found = align(log_probs, [5], [[0, 2]], [2], token_times.align_and_score)
    np.testing.assert_allclose(found.scores, [[0, -6]], atol=1e-5)  # frames after the last token


def test_scores_do_not_depend_on_padding():
    rng = np.random.default_rng(2)
    log_probs = log_softmax(3 * rng.normal(size=[1, 9, 5]))
    alone = align(log_probs, [9], [[1, 3]], [2], token_times.align_and_score).scores
    padded = np.pad(log_probs, [[0, 1], [0, 4], [0, 0]], constant_values=np.nan)
    both = align(padded, [9, 0], [[1, 3, 2], [0, 0, 0]], [2, 0], token_times.align_and_score).scores
    np.testing.assert_allclose(both, [[*alone[0], 0], [0, 0, 0]], rtol=1e-6)
