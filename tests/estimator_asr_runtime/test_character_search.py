"""The search for characters returns the same sentences as TensorFlow's."""

import numpy as np
import pytest
import small_ngrams

from estimator_asr_runtime import character_search, ngrams

WEIGHT, COUNT = 0.7, 3
NUM_TOKENS = np.int32([4, 0, 1, 3, 5])


@pytest.fixture(scope="module")
def arrays():
    from estimator_asr.decoding.ngrams import arpa, back_off

    model = arpa.read(str(small_ngrams.DIRECTORY / "kenlm.arpa"))
    words = ["<unk>", *sorted(set(model.words) - {"<unk>", "<s>", "</s>"})]
    return back_off.compile_model(model, words, "kenlm.arpa")


def make_lattice(seed: int, num_characters: int) -> character_search.Lattice:
    """Returns sentences of NUM_TOKENS tokens, each of which has 1 to COUNT possible candidates."""
    rng = np.random.default_rng(seed)
    shape = [len(NUM_TOKENS), max(NUM_TOKENS), COUNT]
    characters = np.int32(np.argsort(rng.random([*shape[:2], num_characters]))[..., :COUNT])
    log_probs = np.float32(-np.sort(rng.exponential(size=shape)))
    counts = rng.integers(1, COUNT + 1, shape[:2]) * (np.arange(shape[1]) < NUM_TOKENS[:, None])
    is_missing = np.arange(COUNT) >= counts[..., None]
    return character_search.Lattice(characters, np.where(is_missing, np.float32(-1e9), log_probs))


def normalise(lattice):
    """Returns the lattice with probabilities that sum to 1 for each token, like the language model's."""
    exists = lattice.log_probs > -1e8
    log_probs = np.where(exists, lattice.log_probs, -np.inf)
    totals = np.logaddexp.reduce(log_probs, axis=2, keepdims=True)
    scaled = np.where(exists, log_probs - np.where(np.isfinite(totals), totals, 0), -1e9)
    return lattice._replace(log_probs=np.float32(scaled))


def list_pairs(lattice):
    """Converts the candidates to tensors."""
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.decoding.search import candidates

    exists = lattice.log_probs > -1e8
    shape = exists.shape
    positions = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], 1) + np.zeros(shape, int)
    constants = (lattice.log_probs[exists], np.int32(positions[exists]), lattice.characters[exists])
    return candidates.ScoredPairs(*map(tf.constant, constants), tf.constant(np.int32(shape[:2])))


@pytest.mark.parametrize("width", [1, 2, 10])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_equals_that_of_tensorflow(arrays, seed, width):
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.decoding.search import character_search as graph_search
    from estimator_asr.decoding.search import scorers as graph_scorers
    from estimator_asr.experiment import config

    lattice = normalise(make_lattice(seed, len(arrays.unigram_log_probs)))
    decode = config.DecodeConfig(beam_width=width, candidates=COUNT)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        args = list_pairs(lattice), tf.constant(NUM_TOKENS), graph_scorers.NgramScorer(arrays, WEIGHT)
        expected = session.run(graph_search.search(decode, *args))
    scorer = ngrams.NgramScorer(ngrams.BackOffArrays(**vars(arrays)), WEIGHT)
    found = character_search.search(lattice, NUM_TOKENS, scorer, width)
    np.testing.assert_array_equal(found.characters, expected.characters)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    np.testing.assert_allclose(found.probs, expected.probs, atol=1e-5)


def test_the_first_candidates_equal_those_of_tensorflow():
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.decoding.search import candidates

    lattice = normalise(make_lattice(5, 9))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        expected = session.run(candidates.best(list_pairs(lattice)))
    found = character_search.take_first(lattice, NUM_TOKENS)
    np.testing.assert_array_equal(found.characters, expected.characters)
    np.testing.assert_allclose(found.scores, expected.log_probs.sum(axis=1), atol=1e-5)
    np.testing.assert_allclose(found.probs, np.exp(expected.log_probs), atol=1e-6)


def test_a_token_without_candidates_has_no_character():
    lattice = character_search.Lattice(np.int32([[[7]]]), np.float32([[[-1e9]]]))
    found = character_search.take_first(lattice, np.int32([1]))
    assert [each.tolist() for each in found] == [[[-1]], [0.0], [[1.0]]]
