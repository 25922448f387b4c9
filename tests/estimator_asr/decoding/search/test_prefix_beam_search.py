"""Prefix beam search against a plain search with dictionaries, all paths, and itself in other batches."""

import collections
import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import prefix_beam_search, scorers
from estimator_asr.experiment import config as config_lib

NUM_CLASSES = 5
BLANK = NUM_CLASSES - 1


class Search:
    """The search as a graph that is built once."""

    def __init__(self, num_classes=NUM_CLASSES, scorers=(), **settings):
        config = config_lib.DecodeConfig(**{"skipped_blank": 1.0, **settings})
        with tf.Graph().as_default() as graph:
            self.logits = tf.compat.v1.placeholder(tf.float32, [None, None, num_classes])
            self.num_frames = tf.compat.v1.placeholder(tf.int32, [None])
            self.found = prefix_beam_search.prefix_beam_search(config, self.logits, self.num_frames, scorers)
        self.session = tf.compat.v1.Session(graph=graph)

    def __call__(self, logits, num_frames):
        """Returns lists of (tokens, score, acoustic score), one for each utterance."""
        found = self.session.run(self.found, {self.logits: logits, self.num_frames: num_frames})
        return [
            [
                (tuple(ids[:count]), score, acoustic)
                for ids, count, score, acoustic in zip(*row)
                if score > -np.inf
            ]
            for row in zip(*(each.tolist() for each in found))
        ]


def softmax(logits):
    exponentials = np.exp(np.float64(logits))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def plain_search(probs, width):
    """Returns [(tokens, log probability)] of the frames float64 [num_frames, num_classes], best first."""
    beam = {(): (1.0, 0.0)}  # prefix to the probabilities of paths that end with a blank, with its last token
    for frame in probs:
        grown = collections.defaultdict(lambda: [0.0, 0.0])
        for prefix, (blank, token) in beam.items():
            grown[prefix][0] += (blank + token) * frame[-1]
            if prefix:
                grown[prefix][1] += token * frame[prefix[-1]]
            for i, prob in enumerate(frame[:-1]):
                is_repeat = prefix and prefix[-1] == i
                grown[(*prefix, i)][1] += (blank if is_repeat else blank + token) * prob
        beam = dict(sorted(grown.items(), key=lambda item: -sum(item[1]))[:width])
    return [(prefix, math.log(sum(each))) for prefix, each in beam.items() if sum(each)]


def collapse(path):
    return tuple(i for i, _ in itertools.groupby(path) if i != BLANK)


def make_batch(rng, most_frames=12, num_classes=NUM_CLASSES):
    shape = [rng.integers(1, 6), rng.integers(1, most_frames + 1), num_classes]
    logits = np.float32(rng.normal(size=shape) * rng.uniform(0.5, 4))
    return logits, np.int32(rng.integers(1, shape[1] + 1, shape[0]))


@pytest.mark.long
def test_equal_to_a_plain_search_on_random_matrices():
    search, rng, count = Search(beam_width=4, candidates=NUM_CLASSES), np.random.default_rng(1), 0
    while count < 2000:
        logits, num_frames = make_batch(rng)
        for found, each, length in zip(search(logits, num_frames), logits, num_frames):
            expected = plain_search(softmax(each[:length]), 4)
            assert [tokens for tokens, *_ in found] == [tokens for tokens, _ in expected]
            np.testing.assert_allclose(
                [score for _, score, _ in found], [score for _, score in expected], atol=1e-4
            )
            count += 1


@pytest.mark.long
def test_a_wide_beam_finds_the_sums_over_all_paths():
    probs = softmax(np.random.default_rng(2).normal(size=[5, NUM_CLASSES]))
    sums = collections.Counter()
    for path in itertools.product(range(NUM_CLASSES), repeat=5):
        sums[collapse(path)] += math.prod(probs[range(5), path])
    (found,) = Search(beam_width=len(sums), candidates=4)(np.log(probs)[None], [5])
    assert len(found) == len(sums)
    for tokens, score, _ in found:
        assert math.exp(score) == pytest.approx(sums[tokens], rel=1e-4)


@pytest.mark.long
def test_beam_width_plus_one_candidates_find_the_same_as_all_tokens():
    rng = np.random.default_rng(3)
    few, all_tokens = (Search(40, beam_width=5, candidates=candidates) for candidates in (6, 39))
    for _ in range(20):
        logits, num_frames = make_batch(rng, most_frames=20, num_classes=40)
        assert few(logits, num_frames) == all_tokens(logits, num_frames)


@pytest.mark.long
def test_batch_and_padding_change_nothing():
    rng, search = np.random.default_rng(4), Search(beam_width=4)
    logits = np.float32(rng.normal(size=[6, 15, NUM_CLASSES]) * 3)
    num_frames = np.int32([15, 1, 7, 0, 12, 3])
    together = search(np.pad(logits, [[0, 0], [0, 9], [0, 0]], constant_values=np.nan), num_frames)
    for each, length, found in zip(logits, num_frames, together):
        ((*alone,),) = search(each[None, : max(length, 1)], [length])
        assert [tokens for tokens, *_ in alone] == [tokens for tokens, *_ in found]
        # The order of a sum depends on the shape: on some CPUs the last bit differs.
        for (_, *scores), (_, *expected) in zip(alone, found):
            assert scores == pytest.approx(expected, rel=1e-6)
    assert together[3] == [((), 0.0, 0.0)]


def peaked(path, other=-4.0):
    """Returns logits float32 [1, num_frames, num_classes] with a sharp peak at each class of the path."""
    return np.where(np.eye(NUM_CLASSES)[path] > 0, 8.0, other)[None].astype(np.float32)


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "tokens"),
    [
        ([0, BLANK, 0], (0, 0)),
        ([0, BLANK, BLANK, BLANK, 0, 0], (0, 0)),
        ([BLANK, 0, 0, BLANK, 1], (0, 1)),
        ([BLANK, BLANK], ()),
        ([2, 2, 1, BLANK], (2, 1)),
    ],
)
def test_a_skipped_blank_still_separates_equal_tokens(path, tokens):
    whole, skipping = (Search(skipped_blank=limit)(peaked(path), [len(path)])[0][0] for limit in (1.0, 0.9))
    assert whole[0] == skipping[0] == tokens
    assert skipping[1] == pytest.approx(whole[1], abs=1e-3)


@pytest.mark.long
def test_skipping_blanks_leaves_the_best_hypothesis():
    rng = np.random.default_rng(5)
    logits = np.float32(rng.normal(size=[40, 30, NUM_CLASSES]) * 2)
    logits[..., BLANK] += np.where(rng.uniform(size=[40, 30]) < 0.6, 12, 0)
    lengths = np.full(40, 30)
    whole, skipping = (Search(skipped_blank=limit)(logits, lengths) for limit in (1.0, 0.99))
    assert [row[0][0] for row in skipping] == [row[0][0] for row in whole]


@pytest.mark.long
def test_long_improbable_recordings_keep_their_scores():
    """The probability of the best hypothesis is below what float64 can hold."""
    logits = np.float32(np.random.default_rng(6).normal(size=[1, 1500, NUM_CLASSES]))
    (found,) = Search(beam_width=3)(logits, [1500])
    assert -3000 < found[0][1] < -750 and len(found) == 3


class PreferToken:
    """Adds 5 for token 1 after token 0, and 2 at the end after token 1; the state is the last token."""

    def start(self, batch_size):
        return tf.fill([batch_size], -1)

    def extend(self, states, token_ids):
        tokens = tf.broadcast_to(token_ids[:, None], [*tf.unstack(tf.shape(states)), tf.shape(token_ids)[1]])
        follows = tf.equal(states[:, :, None], 0) & tf.equal(tokens, 1)
        return 5.0 * tf.cast(follows, tf.float32), tokens

    def finish(self, states):
        return 2.0 * tf.cast(tf.equal(states, 1), tf.float32)


@pytest.mark.long
def test_scorers_add_to_the_probability():
    probs = softmax(np.random.default_rng(7).normal(size=[4, NUM_CLASSES]))
    (found,) = Search(beam_width=200, candidates=4, scorers=[PreferToken()])(np.log(probs)[None], [4])
    plain = dict(plain_search(probs, 1000))
    assert len(found) == len(plain)
    for tokens, score, acoustic in found:
        pairs = sum(pair == (0, 1) for pair in zip(tokens, tokens[1:]))
        assert acoustic == pytest.approx(plain[tokens], abs=1e-4)
        assert score == pytest.approx(plain[tokens] + 5 * pairs + 2 * (tokens[-1:] == (1,)), abs=1e-4)
    assert [score for _, score, _ in found] == sorted((score for _, score, _ in found), reverse=True)


@pytest.mark.long
def test_two_scorers_add_up():
    logits = np.float32(np.random.default_rng(9).normal(size=[1, 6, NUM_CLASSES]))
    (found,) = Search(beam_width=20, scorers=[PreferToken(), scorers.TokenBonus(0.7)])(logits, [6])
    for tokens, score, acoustic in found:
        pairs = sum(pair == (0, 1) for pair in zip(tokens, tokens[1:]))
        added = 5 * pairs + 2 * (tokens[-1:] == (1,)) + 0.7 * len(tokens)
        assert score == pytest.approx(acoustic + added, abs=1e-4)


@pytest.mark.long
def test_hypotheses_that_do_not_exist_have_no_tokens():
    """One frame with one token has two hypotheses: the empty one and the token."""
    search = Search(2, beam_width=5, candidates=1)
    found = search.session.run(search.found, {search.logits: np.zeros([1, 1, 2]), search.num_frames: [1]})
    assert sorted(found.num_tokens[0].tolist()) == [0, 0, 0, 0, 1]
    assert np.isfinite(found.scores[0]).tolist() == [True, True, False, False, False]
    assert found.num_tokens[0, 2:].tolist() == [0, 0, 0] and found.ids.shape == (1, 5, 1)


@pytest.mark.long
def test_a_beam_of_width_one_finds_the_peaks():
    (found,) = Search(beam_width=1)(peaked([0, BLANK, 1, 1]), [4])
    assert [tokens for tokens, *_ in found] == [(0, 1)]
