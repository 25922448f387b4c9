"""CTC of characters with several readings against sums over all paths."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import pronunciations

BLANK = 4


def draw(num_frames, seed):
    logits = 2 * np.random.default_rng(seed).normal(size=[num_frames, BLANK + 1])
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def run(log_probs, num_frames, readings, counts):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(
            pronunciations.find_best_prefixes(
                tf.constant(log_probs, tf.float32),
                tf.constant(num_frames),
                tf.constant(readings, tf.int32),
                tf.constant(counts, tf.int32),
            )
        )


def total(log_probs, readings):
    """Returns the log probability of all paths that spell one reading of each character."""
    wanted, score = set(itertools.product(*readings)), -np.inf
    for path in itertools.product(range(BLANK + 1), repeat=len(log_probs)):
        written = tuple(key for key, _ in itertools.groupby(path) if key != BLANK)
        if written in wanted:
            score = np.logaddexp(score, sum(row[each] for row, each in zip(log_probs, path)))
    return score


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_the_best_prefix_and_its_probability(seed):
    log_probs, readings = draw(5, seed), [(0, 1), (2,), (3,)]
    padded = np.array([[[(0, 1), (2, -1), (3, -1)]]])
    found = run(log_probs[None], [5], padded, [[3]])
    totals = [total(log_probs, readings[:length]) for length in range(4)]
    assert found.num_characters[0, 0] == np.argmax(totals)
    assert found.scores[0, 0] == pytest.approx(max(totals), abs=1e-4)


@pytest.mark.long
def test_each_character_is_read_as_it_sounds():
    log_probs = np.full([6, BLANK + 1], -9.0)
    for frame, token in enumerate((0, BLANK, 1, BLANK, 0, BLANK)):
        log_probs[frame, token] = -0.01
    readings = np.array([[[(1, 0), (1, 2), (0, 1), (3, -1)]]])
    found = run(log_probs[None], [6], readings, [[4]])
    assert found.num_characters[0, 0] == 3  # the audio does not contain the fourth character
    assert found.ids[0, 0].tolist() == [0, 1, 0, -1]


@pytest.mark.long
def test_equal_tokens_need_a_blank_between_them():
    """Two characters with the same token do not match a single emission of the token."""
    log_probs = np.full([3, BLANK + 1], -20.0)
    log_probs[:, 0] = -0.01
    found = run(log_probs[None], [3], np.array([[[(0, 1), (2, 0)]]]), [[2]])
    assert found.num_characters[0, 0] == 1


@pytest.mark.long
def test_results_do_not_depend_on_batch_or_padding_even_without_frames():
    long, short = draw(7, 1), draw(4, 2)
    batch = np.full([3, 7, BLANK + 1], 5.0)
    batch[0], batch[1, :4] = long, short
    readings = np.array([[[(0, 1), (2, -1)], [(3, -1), (1, -1)]]] * 3)
    found = run(batch, [7, 4, 0], readings, [[2, 1]] * 3)
    for i, log_probs in enumerate((long, short)):
        alone = run(log_probs[None], [len(log_probs)], readings[:1], [[2, 1]])
        np.testing.assert_allclose(found.scores[i], alone.scores[0], atol=1e-4)
        np.testing.assert_array_equal(found.ids[i], alone.ids[0])
    assert found.num_characters[2].tolist() == [0, 0] and found.scores[2].tolist() == [0.0, 0.0]
