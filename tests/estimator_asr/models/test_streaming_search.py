"""The search that continues where the previous call ended."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import prefix_beam_search, scorers
from estimator_asr.experiment import config as config_lib
from estimator_asr.models import streaming, streaming_search

NUM_CLASSES = 7
CONFIG = config_lib.DecodeConfig(beam_width=5, candidates=4, skipped_blank=0.8)


class RememberLast:
    """A scorer that adds 0.5 to a token above the last token, and -1 to an end after token 0."""

    def start(self, batch_size):
        return tf.fill([batch_size], 3)

    def extend(self, states, token_ids):
        shape = [*tf.unstack(tf.shape(states)), tf.shape(token_ids)[1]]
        after = tf.broadcast_to(token_ids[:, None], shape)
        return tf.where(after > states[:, :, None], 0.5, 0.0), after

    def finish(self, states):
        return tf.where(tf.equal(states, 0), -1.0, 0.0)


class Search:
    """The search over whole recordings and the search over pieces, in one graph."""

    def __init__(self, chosen=(), max_tokens=40, **settings):
        config = dataclasses.replace(CONFIG, **settings)
        with tf.Graph().as_default():
            self.logits = tf.compat.v1.placeholder(tf.float32, [None, None, NUM_CLASSES])
            self.num_frames = tf.compat.v1.placeholder(tf.int32, [None])
            self.is_last = tf.compat.v1.placeholder(tf.bool, [None])
            self.whole = prefix_beam_search.prefix_beam_search(config, self.logits, self.num_frames, chosen)
            self.before = tf.compat.v1.placeholder(tf.int32, [None])
            self.state = streaming.State()
            stream = streaming.Stream(tf.constant(1), self.before, self.state)
            self.piece, self.times = streaming_search.search(
                config, self.logits, self.num_frames, self.is_last, stream, max_tokens, chosen
            )
            self.session = tf.compat.v1.Session()

    def run(self, logits, num_frames):
        return self.session.run(self.whole, {self.logits: logits, self.num_frames: num_frames})

    def run_pieces(self, logits, num_frames, draw):
        starts = self.session.run(self.state.starts)
        state = {name: np.stack([start] * len(logits)) for name, start in starts.items()}
        consumed = np.zeros(len(logits), int)
        while True:
            counts = np.minimum([draw() for _ in logits], num_frames - consumed)
            piece = np.full([len(logits), max(counts.max(), 1), NUM_CLASSES], 3.0)
            for row, source, start, count in zip(piece, logits, consumed, counts):
                row[:count] = source[start : start + count]
            feeds = {self.logits: piece, self.num_frames: counts, self.before: consumed.copy()}
            consumed += counts
            feeds[self.is_last] = consumed == num_frames
            feeds.update({self.state.inputs[name]: value for name, value in state.items()})
            best, times, state = self.session.run([self.piece, self.times, self.state.outputs], feeds)
            if np.all(consumed == num_frames):
                return best, times


def list_hypotheses(hypotheses, row):
    """Returns the possible hypotheses of an utterance: their tokens, and their scores."""
    scores = hypotheses.scores[row]
    pairs = zip(hypotheses.ids[row], hypotheses.num_tokens[row], np.isfinite(scores))
    return [ids[:length].tolist() for ids, length, is_possible in pairs if is_possible], scores[
        np.isfinite(scores)
    ]


def make_logits(rng, num_frames):
    """Returns logits with peaks at tokens and, in about every second frame, at a blank that is skipped."""
    logits = 2.5 * rng.normal(size=[3, num_frames, NUM_CLASSES])
    logits[..., -1] += 2.0 * (rng.random([3, num_frames]) > 0.4) + 1.0
    return logits


@pytest.mark.long
@pytest.mark.parametrize("chosen", [(), (scorers.TokenBonus(0.7), RememberLast())])
def test_any_pieces_have_the_hypotheses_of_the_whole_recording(chosen):
    search, rng = Search(chosen), np.random.default_rng(1)
    for _ in range(30):
        logits, num_frames = make_logits(rng, 40), np.array([40, *rng.integers(0, 40, 2)])
        whole = search.run(logits, num_frames)
        pieces, times = search.run_pieces(logits, num_frames, lambda: rng.integers(0, 9))
        _, whole_times = search.run_pieces(logits, num_frames, lambda: 40)
        for row in range(3):
            (ids, scores), (got, got_scores) = (list_hypotheses(best, row) for best in (whole, pieces))
            assert got == ids
            np.testing.assert_allclose(got_scores, scores, atol=1e-4)
            for place, tokens in enumerate(ids):
                for fields in zip(times, whole_times):
                    parts = (field[row, place, : len(tokens)] for field in fields)
                    np.testing.assert_allclose(*parts, rtol=1e-5)


def test_a_token_continues_in_the_next_piece_unless_a_skipped_blank_ends_it():
    search = Search()
    logits = np.full([2, 4, NUM_CLASSES], -9.0)
    logits[0, :, 2] = logits[1, [0, 1, 3], 2] = 9.0
    logits[1, 2, -1] = 9.0
    for size in (1, 2, 3):
        found, _ = search.run_pieces(logits, np.array([4, 4]), lambda size=size: size)
        assert [list_hypotheses(found, row)[0][0] for row in range(2)] == [[2], [2, 2]]


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_token_has_the_time_at_which_it_is_most_probable(size):
    """Frames 0, 1 and 5 are skipped; the prefix of both tokens is in the beam long before the second peak."""
    probs = np.full([1, 8, NUM_CLASSES], 0.01)
    probs[0, [0, 1, 5], -1] = 0.94
    probs[0, [2, 3, 4], 2], probs[0, [4, 6, 7], 3] = [0.7, 0.8, 0.6], [0.3, 0.9, 0.6]
    rest = [2, 3, 4, 6, 7]
    probs[0, rest, -1] = 1 - probs[0, rest, :-1].sum(axis=1)
    batch = np.concatenate([np.log(probs), np.zeros([1, 8, NUM_CLASSES])])  # the second recording is short
    found, times = Search().run_pieces(batch, np.array([8, 1]), lambda: size)
    assert list_hypotheses(found, 0)[0][0] == [2, 3]
    assert times.starts[0, 0, :2].tolist() == [3, 6] and times.ends[0, 0, :2].tolist() == [4, 7]
    np.testing.assert_allclose(times.probs[0, 0, :2], [0.8, 0.9], atol=1e-3)


def test_a_token_that_is_never_likely_has_a_frame_of_its_own():
    probs = np.full([1, 9, NUM_CLASSES], 0.001)
    probs[0, [0, 1, 2], 2], probs[0, [4, 5, 6], 3] = 0.9, [0.002, 0.004, 0.003]
    rest = np.arange(9)
    probs[0, rest, -1] = 1 - probs[0, rest, :-1].sum(axis=1)
    bonus = Search([scorers.TokenBonus(6.0)], skipped_blank=1.0)
    for size in (1, 3, 9):
        found, times = bonus.run_pieces(np.log(probs), np.array([9]), lambda size=size: size)
        tokens = list_hypotheses(found, 0)[0][0]
        starts = times.starts[0, 0, : len(tokens)].tolist()
        assert starts == sorted(set(starts))


@pytest.mark.long
def test_a_minute_of_frames_in_pieces_has_the_scores_of_one_call():
    search, rng = Search(), np.random.default_rng(1)
    logits = make_logits(rng, 1500)[:1]
    whole = search.run(logits, [1500])
    pieces, _ = search.run_pieces(logits, np.array([1500]), lambda: 60)
    np.testing.assert_allclose(pieces.scores, whole.scores, atol=2e-4)
    assert -3000 < whole.scores[0, 0] < -500


@pytest.mark.long
def test_scorers_score_the_end_only_when_the_recording_ends():
    search = Search([RememberLast()])
    logits = np.full([1, 2, NUM_CLASSES], -9.0)
    logits[0, 0, 0] = logits[0, 1, -1] = 9.0
    feeds = {search.logits: logits, search.num_frames: [2], search.before: [0]}
    starts = search.session.run(search.state.starts)
    feeds.update({search.state.inputs[name]: start[None] for name, start in starts.items()})
    continued, ended = (
        search.session.run(search.piece, {**feeds, search.is_last: [is_last]}) for is_last in (False, True)
    )
    assert continued.scores[0, 0] - ended.scores[0, 0] == pytest.approx(1.0)


@pytest.mark.long
def test_tokens_beyond_max_tokens_are_dropped():
    search = Search(max_tokens=2)
    logits = np.full([1, 8, NUM_CLASSES], -9.0)
    logits[0, range(8), [0, 6, 1, 6, 2, 6, 3, 6]] = 9.0
    found, _ = search.run_pieces(logits, np.array([8]), lambda: 3)
    assert list_hypotheses(found, 0)[0][0] == [0, 1]
