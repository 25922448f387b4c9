"""The automaton compared with plain Python, and in a beam search."""

import graph_variables
import hotword_reference
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.hotwords import boosting
from estimator_asr.decoding.search import phrases, prefix_beam_search
from estimator_asr.experiment import config as config_lib

NUM_TOKENS = 7


def build_scores(rows, boosts, tokens):
    """Returns the score of each token, [num_tokens, batch], and the score of the end, [batch]."""
    scorer = boosting.HotwordScorer(phrases.Phrases(rows, boosts), NUM_TOKENS)

    def step(i, states, history):
        scores, after = scorer.extend(states, tokens[:, i : i + 1])
        return i + 1, after[:, :, 0], history.write(i, scores[:, 0, 0])

    start = 0, scorer.start(tf.shape(tokens)[0])[:, None], tf.TensorArray(tf.float32, 0, True)
    shapes = tf.TensorShape([]), tf.TensorShape([None, 1]), tf.TensorShape(None)
    _, states, history = tf.while_loop(lambda i, *_: i < tf.shape(tokens)[1], step, start, shapes)
    return history.stack(), scorer.finish(states)[:, 0]


@pytest.fixture(scope="module")
def score():
    matrix = tf.int32, [None, None]
    network = graph_variables.Network(build_scores, rows=matrix, boosts=(tf.float32, [None]), tokens=matrix)
    return lambda rows, boosts, tokens: network(hotword_reference.pad(rows), boosts, tokens)


@pytest.mark.parametrize(
    ("rows", "boosts", "tokens", "added", "end"),
    [
        ([[1, 2, 3]], [60], [1, 2, 3, 4], [2, 2, 56, 0], 0),
        ([[1, 2, 3]], [60], [1, 2, 4, 1], [2, 2, -4, 2], -2),  # refunds at the mismatch and at the end
        ([[1, 2, 3]], [60], [1, 1, 2, 3], [2, 0, 2, 56], 0),  # a match begins inside a failed match
        ([[1, 2], [2, 3]], [40, 100], [1, 2, 3], [2, 38 + 5, 95], 0),  # the phrases overlap
        (
            [[1, 2], [1, 2, 3, 4]],
            [40, 80],
            [1, 2, 3, 4],
            [2, 42, 2, 74],
            0,
        ),  # the second begins with the first
        ([[1, 2, 3], [3]], [60, 1], [1, 2, 3], [2, 2, 57], 0),  # the first ends with the second
        ([[1, 2, 3], [2, 4]], [60, 80], [1, 2, 4], [2, 2, 76], 0),  # the first fails where the second ends
        ([[1], [1]], [3, 2], [1, 1], [3, 3], 0),  # duplicates
        ([[], [5]], [9, 3], [4, 5], [0, 3], 0),
        ([], [], [4, 5], [0, 0], 0),
    ],
)
def test_scores_equal_values_computed_by_hand(score, rows, boosts, tokens, added, end):
    got, finish = score(rows, boosts, [tokens])
    np.testing.assert_allclose(got[:, 0], added, atol=1e-5)
    np.testing.assert_allclose(finish, [end], atol=1e-5)


def check_total_boosts(score, rows, boosts, tokens):
    added, end = score(rows, boosts, tokens)
    expected = [hotword_reference.total_boost(rows, boosts, row) for row in tokens]
    np.testing.assert_allclose(added.sum(axis=0) + end, expected, rtol=1e-6, atol=1e-4)


@pytest.mark.long
def test_a_hypothesis_gets_the_boosts_of_all_occurrences(score):
    rng = np.random.default_rng(6)
    for _ in range(200):
        rows = hotword_reference.random_phrases(rng, 15, 5)
        check_total_boosts(score, rows, rng.uniform(0, 9, len(rows)), rng.integers(0, 6, [6, 14]))


def test_a_thousand_long_phrases(score):
    rng = np.random.default_rng(7)
    rows = [rng.integers(1, NUM_TOKENS, length).tolist() for length in rng.integers(1, 12, 1000)]
    check_total_boosts(score, rows, rng.uniform(0, 9, 1000), rng.integers(0, NUM_TOKENS, [4, 60]))


@pytest.mark.long
def test_only_a_complete_phrase_changes_the_result_of_the_search():
    """Tokens 0 and 1 have probabilities 0.6 and 0.4 in two frames: 1 1 needs a boost of log(0.36 / 0.16)."""
    probs = np.float32([[[0.6, 0.4, 1e-6], [1e-6, 1e-6, 1.0], [0.6, 0.4, 1e-6]]])
    config = config_lib.DecodeConfig(beam_width=4, skipped_blank=1.0)

    def search(rows, boosts):
        scorer = boosting.HotwordScorer(phrases.Phrases(rows, boosts), 2)
        logits = tf.constant(np.log(probs))
        return prefix_beam_search.prefix_beam_search(config, logits, tf.constant([3]), [scorer])

    network = graph_variables.Network(search, rows=(tf.int32, [None, None]), boosts=(tf.float32, [None]))
    for phrase, boost, expected in (([1, 1], 0.7, [0, 0]), ([1, 1], 0.9, [1, 1]), ([1, 1, 0], 9.0, [0, 0])):
        best = network([phrase], [boost])
        assert best.ids[0, 0].tolist() == expected
        bonus = best.scores[0, 0] - best.acoustic_scores[0, 0]
        np.testing.assert_allclose(bonus, boost if expected == phrase else 0.0, atol=1e-5)
