"""The search in NumPy returns the same hypotheses as TensorFlow's; small cases are checked by hand."""

import functools
import math

import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import beam_search, ngrams

NUM_CLASSES = 20
SETTINGS = (
    {"skipped_blank": 1.0},
    {"skipped_blank": 0.6, "token_bonus": 0.7},
    {"skipped_blank": 0.95, "ngram_weight": 0.5, "token_bonus": 1.5, "beam_width": 10, "candidates": 12},
    {"decoding": "greedy"},
)


@functools.lru_cache(maxsize=1)
def ngram():
    """Estimates a 3-gram model of the tokens from random text."""
    from estimator_asr.decoding.ngrams import back_off, kneser_ney

    rng = np.random.default_rng(0)
    tokens = ["<unk>", *(f"t{i}" for i in range(1, NUM_CLASSES - 1))]
    lines = [[tokens[int(each)] for each in rng.geometric(0.2, 8) % 17 + 1] for _ in range(300)]
    model = kneser_ney.estimate(kneser_ney.encode(lines), 3).model
    return back_off.compile_model(model, tokens, "random")


def make_log_probs(seed: int, sharpness: float) -> np.ndarray:
    """Returns float32 [num_frames, NUM_CLASSES]; the blank, the last class, is the most frequent one."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=[rng.integers(30, 81), NUM_CLASSES]) * sharpness
    logits[:, -1] += sharpness * rng.uniform(0, 4, len(logits))
    return np.float32(logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True)))


def search_by_tensorflow(settings, log_probs):
    """Returns (ids, score, acoustic score) of each hypothesis with a finite score."""
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.decoding.search import decoders
    from estimator_asr.decoding.search import scorers as graph_scorers
    from estimator_asr.experiment import config

    decode = config.DecodeConfig(**{**runtime_models.DECODE, **settings})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        chosen = [graph_scorers.TokenBonus(decode.token_bonus)] if decode.token_bonus else []
        chosen += [graph_scorers.NgramScorer(ngram(), decode.ngram_weight)] if decode.ngram_weight else []
        args = tf.constant(log_probs[None]), tf.constant([len(log_probs)]), chosen
        found = session.run(decoders.DECODERS[decode.decoding](decode, *args))
    rows = zip(found.ids[0], found.num_tokens[0], found.scores[0], found.acoustic_scores[0])
    return [(tuple(ids[:count]), score, acoustic) for ids, count, score, acoustic in rows if score > -np.inf]


def search(settings, log_probs):
    decode = runtime_models.make_decode(**settings)
    if not decode.ngram_weight:
        return beam_search.search(decode, log_probs)
    scorer = ngrams.NgramScorer(ngrams.BackOffArrays(**vars(ngram())), decode.ngram_weight)
    return beam_search.search(decode, log_probs, [scorer])


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: " ".join(map(str, each)))
@pytest.mark.parametrize("sharpness", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.long
def test_hypotheses_equal_those_of_tensorflow(settings, sharpness, seed):
    log_probs = make_log_probs(seed, sharpness)
    found, expected = search(settings, log_probs), search_by_tensorflow(settings, log_probs)
    assert [each.ids for each in found] == [ids for ids, *_ in expected]
    np.testing.assert_allclose([each.score for each in found], [score for _, score, _ in expected], atol=1e-4)
    acoustic_scores = [score for *_, score in expected]
    np.testing.assert_allclose([each.acoustic_score for each in found], acoustic_scores, atol=1e-4)


@pytest.mark.parametrize("size, count", [(1675, 12), (200, 12), (101, 12), (97, 1), (5, 5), (1, 1)])
@pytest.mark.parametrize("levels", [2, 40, 10**9])  # many, some and no equal values
def test_candidates_are_the_first_of_a_stable_order(size, count, levels):
    values = np.random.default_rng(size).integers(levels, size=[7, size]).astype(np.float32)
    values[3] = 0
    expected = np.argsort(-values, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(beam_search._find_best(values, count), expected)
    assert beam_search._find_best(values[:0], count).shape == (0, count)


def test_probabilities_are_sums_over_paths():
    """In each of two frames, the token has probability 0.6 and the blank 0.4."""
    found = beam_search.search(runtime_models.make_decode(), np.log(np.float32([[0.6, 0.4]] * 2)))
    assert [each.ids for each in found] == [(0,), ()]
    assert [math.exp(each.score) for each in found] == pytest.approx([0.6 * 0.6 + 2 * 0.6 * 0.4, 0.16])


def test_a_token_repeats_after_a_blank_even_a_skipped_one():
    log_probs = runtime_models.make_log_probs([1, 4, 1, 1], most=0.96)[0]
    for skipped_blank in (0.9, 1.0):
        decode = runtime_models.make_decode(skipped_blank=skipped_blank)
        assert beam_search.search(decode, log_probs)[0].ids == (1, 1)
    assert beam_search.best_path(log_probs) == [1, 1]


def test_frames_with_only_blanks_have_no_tokens():
    log_probs = runtime_models.make_log_probs([4, 4, 4], most=0.96)[0]
    (found,) = beam_search.search(runtime_models.make_decode(skipped_blank=0.9), log_probs)
    assert found.ids == ()
    assert found.score == pytest.approx(3 * math.log(0.96), rel=1e-5)


def test_the_first_of_equally_probable_tokens_are_candidates():
    log_probs = np.log(np.float32([[0.2, 0.1, 0.2, 0.2, 0.1, 0.2]]))
    found = beam_search.search(runtime_models.make_decode(beam_width=9, candidates=2), log_probs)
    assert [each.ids for each in found] == [(), (0,), (2,)]
