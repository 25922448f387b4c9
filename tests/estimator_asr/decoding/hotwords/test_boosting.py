"""The automaton compared with plain Python, and in a beam search."""

from __future__ import annotations

import hotword_reference
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.hotwords import boosting
from estimator_asr.decoding.search import phrases, prefix_beam_search
from estimator_asr.experiment import config as config_lib

NUM_TOKENS = 7


class Scorer:
    """The scorer in a graph that is built once and fed with phrases."""

    def __init__(self):
        with tf.Graph().as_default() as graph:
            placeholder = tf.compat.v1.placeholder
            self.inputs = placeholder(tf.int32, [None, None]), placeholder(tf.float32, [None])
            self.tokens = placeholder(tf.int32, [None, None])
            scorer = boosting.HotwordScorer(phrases.Phrases(*self.inputs), NUM_TOKENS)
            self.outputs = self.score(scorer)
        self.session = tf.compat.v1.Session(graph=graph)

    def score(self, scorer):
        """Returns the score of each token, [num_tokens, batch], and the score of the end, [batch]."""

        def step(i, states, found):
            scores, after = scorer.extend(states, self.tokens[:, i : i + 1])
            return i + 1, after[:, :, 0], found.write(i, scores[:, 0, 0])

        start = 0, scorer.start(tf.shape(self.tokens)[0])[:, None], tf.TensorArray(tf.float32, 0, True)
        shapes = tf.TensorShape([]), tf.TensorShape([None, 1]), tf.TensorShape(None)
        length = tf.shape(self.tokens)[1]
        _, states, found = tf.while_loop(lambda i, *_: i < length, step, start, shapes)
        return found.stack(), scorer.finish(states)[:, 0]

    def __call__(self, rows, boosts, tokens):
        feeds = [hotword_reference.pad(rows), boosts, tokens]
        return self.session.run(self.outputs, dict(zip([*self.inputs, self.tokens], feeds)))


@pytest.fixture(scope="module")
def score():
    return Scorer()


@pytest.mark.parametrize(
    ("rows", "boosts", "tokens", "added", "end"),
    [
        ([[1, 2, 3]], [60], [1, 2, 3, 4], [2, 2, 56, 0], 0),
        ([[1, 2, 3]], [60], [1, 2, 4, 1], [2, 2, -4, 2], -2),  # refunds at the mismatch and at the end
        ([[1, 2, 3]], [60], [1, 1, 2, 3], [2, 0, 2, 56], 0),  # a match may begin in one that fails
        ([[1, 2], [2, 3]], [40, 100], [1, 2, 3], [2, 38 + 5, 95], 0),  # phrases that overlap
        ([[1, 2], [1, 2, 3, 4]], [40, 80], [1, 2, 3, 4], [2, 42, 2, 74], 0),  # one begins with the other
        ([[1, 2, 3], [3]], [60, 1], [1, 2, 3], [2, 2, 57], 0),  # one ends with the other
        ([[1, 2, 3], [2, 4]], [60, 80], [1, 2, 4], [2, 2, 76], 0),  # one fails where the other ends
        ([[1], [1]], [3, 2], [1, 1], [3, 3], 0),  # duplicates
        ([[], [5]], [9, 3], [4, 5], [0, 3], 0),
        ([], [], [4, 5], [0, 0], 0),
    ],
)
def test_scores_equal_values_computed_by_hand(score, rows, boosts, tokens, added, end):
    got, finish = score(rows, boosts, [tokens])
    np.testing.assert_allclose(got[:, 0], added, atol=1e-5)
    np.testing.assert_allclose(finish, [end], atol=1e-5)


@pytest.mark.long
def test_a_hypothesis_gets_the_boosts_of_all_occurrences(score):
    rng = np.random.default_rng(6)
    for _ in range(200):
        rows = hotword_reference.random_phrases(rng, 15, 5)
        boosts = rng.uniform(0, 9, len(rows))
        tokens = rng.integers(0, 6, [6, 14])
        added, end = score(rows, boosts, tokens)
        expected = [hotword_reference.total_boost(rows, boosts, each) for each in tokens]
        np.testing.assert_allclose(added.sum(axis=0) + end, expected, atol=1e-4)


def test_a_thousand_long_phrases(score):
    rng = np.random.default_rng(7)
    rows = [rng.integers(1, NUM_TOKENS, length).tolist() for length in rng.integers(1, 12, 1000)]
    boosts, tokens = rng.uniform(0, 9, 1000), rng.integers(0, NUM_TOKENS, [4, 60])
    added, end = score(rows, boosts, tokens)
    expected = [hotword_reference.total_boost(rows, boosts, each) for each in tokens]
    np.testing.assert_allclose(added.sum(axis=0) + end, expected, rtol=1e-4)


@pytest.mark.long
def test_only_a_complete_phrase_changes_the_result_of_the_search():
    """Two frames, the tokens 0 and 1 with probabilities 0.6 and 0.4: 1 1 needs log(0.36 / 0.16) = 0.81."""
    probs = np.float32([[[0.6, 0.4, 1e-6], [1e-6, 1e-6, 1.0], [0.6, 0.4, 1e-6]]])
    config = config_lib.DecodeConfig(beam_width=4, skipped_blank=1.0)
    for rows, boost, expected in (
        ([[1, 1]], 0.7, [0, 0]),
        ([[1, 1]], 0.9, [1, 1]),
        ([[1, 1, 0]], 9.0, [0, 0]),
    ):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            scorer = boosting.HotwordScorer(phrases.Phrases(tf.constant(rows), tf.constant([boost])), 2)
            logits = tf.constant(np.log(probs))
            found = prefix_beam_search.prefix_beam_search(config, logits, tf.constant([3]), [scorer])
            found = session.run(found)
        assert found.ids[0, 0].tolist() == expected
        bonus = found.scores[0, 0] - found.acoustic_scores[0, 0]
        np.testing.assert_allclose(bonus, boost if expected == rows[0] else 0.0, atol=1e-5)
