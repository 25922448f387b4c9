"""The best sentence from the candidates, compared with all possible sentences."""

import itertools

import ngram_reference
import numpy as np
import pytest
import small_ngrams
import tensorflow as tf

from estimator_asr.decoding.ngrams import arpa, back_off
from estimator_asr.decoding.search import candidates, character_search, scorers
from estimator_asr.experiment import config

WEIGHT = 0.7
NUM_TOKENS = [4, 0, 1, 3]


@pytest.fixture(scope="module")
def model():
    return arpa.read(str(small_ngrams.DIRECTORY / "kenlm.arpa"))


@pytest.fixture(scope="module")
def words(model):
    return ["<unk>", *sorted(set(model.words) - {"<unk>", "<s>", "</s>"})]


@pytest.fixture(scope="module")
def sentences(words):
    """Returns, for each position of each utterance, {character: log probability}."""
    generator = np.random.default_rng(1)

    def draw(count):
        characters = generator.choice(len(words), count, replace=False).tolist()
        return dict(zip(characters, np.log(generator.dirichlet([1] * count))))

    return [[draw(count) for count in generator.integers(1, 4, length)] for length in NUM_TOKENS]


def score(model, words, utterance, characters):
    reference = ngram_reference.BackOffModel(model)
    text = ["<s>", *(words[each] for each in characters), "</s>"]
    spoken = sum(position[each] for position, each in zip(utterance, characters))
    return spoken + WEIGHT * sum(reference.log_prob(tuple(text[:i]), text[i]) for i in range(1, len(text)))


def list_pairs(utterances, length):
    """Returns position, character and log probability of each candidate."""
    return [
        (i * length + j, character, log_prob)
        for i, utterance in enumerate(utterances)
        for j, position in enumerate(utterance)
        for character, log_prob in position.items()
    ]


def search(model, words, utterances, length, beam_width=81):
    settings = config.DecodeConfig(beam_width=beam_width, candidates=3)
    columns = np.array(list_pairs(utterances, length)).reshape([-1, 3]).T
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        positions, characters, num_tokens, shape = (
            tf.compat.v1.placeholder(tf.int32, [size]) for size in (None, None, None, 2)
        )
        logits = tf.compat.v1.placeholder(tf.float32, [None])
        scorer = scorers.NgramScorer(back_off.compile_model(model, words, "kenlm.arpa"), WEIGHT)
        given = candidates.ScoredPairs(logits, positions, characters, shape)
        found = character_search.search(settings, given, num_tokens, scorer)
        feeds = {positions: columns[0], characters: columns[1], logits: columns[2] + 3}
        counts = [len(each) for each in utterances]
        return session.run(found, {**feeds, num_tokens: counts, shape: [len(counts), length]})


@pytest.mark.long
def test_search_finds_the_best_of_all_sentences(model, words, sentences):
    found = search(model, words, sentences, length=5)
    for i, utterance in enumerate(sentences):
        totals = {each: score(model, words, utterance, each) for each in itertools.product(*utterance)}
        best = max(totals, key=totals.get)
        assert found.characters[i].tolist() == [*best, *[-1] * (5 - len(best))]
        np.testing.assert_allclose(found.scores[i], totals[best], rtol=1e-5)


@pytest.mark.long
def test_character_probabilities_are_conditional_on_all_others(model, words, sentences):
    found = search(model, words, sentences, length=4)
    for i, utterance in enumerate(sentences):
        best = found.characters[i, : len(utterance)].tolist()
        for j, position in enumerate(utterance):
            others = [[*best[:j], each, *best[j + 1 :]] for each in position]
            totals = np.exp([score(model, words, utterance, each) for each in others])
            want = totals[list(position).index(best[j])] / totals.sum()
            np.testing.assert_allclose(found.probs[i, j], want, rtol=1e-4)
    np.testing.assert_array_equal(found.probs[1], 1.0)


@pytest.mark.long
@pytest.mark.parametrize("beam_width", [2, 10])
def test_an_utterance_alone_has_the_same_result(model, words, sentences, beam_width):
    together = search(model, words, sentences, 6, beam_width)
    for i in (0, 3):
        length = NUM_TOKENS[i]
        alone = search(model, words, sentences[i : i + 1], length, beam_width)
        assert together.characters[i, :length].tolist() == alone.characters[0].tolist()
        np.testing.assert_allclose(together.scores[i], alone.scores[0], rtol=1e-6)
        np.testing.assert_allclose(together.probs[i, :length], alone.probs[0], rtol=1e-6)


@pytest.mark.long
def test_a_token_with_many_candidates_keeps_the_best(model, words):
    """All characters are candidates of <unk>, but like for other tokens, only the best three are searched."""
    unknown = dict(enumerate(np.log(np.random.default_rng(3).dirichlet([1] * len(words)))))
    best = dict(sorted(unknown.items(), key=lambda each: -each[1])[:3])
    got, want = (search(model, words, [[{1: 0.0}, position]], length=2) for position in (unknown, best))
    assert got.characters.tolist() == want.characters.tolist()
    shift = sum(np.exp(list(best.values())))  # the three alone are normalised to 1
    np.testing.assert_allclose(got.scores, want.scores + np.log(shift), rtol=1e-5)
    np.testing.assert_allclose(got.probs, want.probs, rtol=1e-4)


@pytest.mark.long
def test_a_batch_without_tokens_has_only_the_score_of_the_end(model, words):
    found = search(model, words, [[], []], length=1)
    assert found.characters.tolist() == [[-1], [-1]]
    np.testing.assert_allclose(found.scores, score(model, words, [], []), rtol=1e-5)
