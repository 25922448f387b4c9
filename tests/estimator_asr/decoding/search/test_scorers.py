import dataclasses

import ngram_reference
import numpy as np
import pytest
import small_ngrams
import tensorflow as tf

from estimator_asr.decoding.ngrams import arpa, back_off
from estimator_asr.decoding.search import scorers

LOG_10 = np.log(10)


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield session


@pytest.fixture
def arrays(tmp_path):
    model = arpa.read(small_ngrams.write(tmp_path))
    return back_off.compile_model(model, ["<unk>", "a", "b"], "small.arpa")


def test_ngram_scores_match_those_computed_by_hand(session, arrays):
    scorer = scorers.NgramScorer(arrays, weight=2.0)
    assert session.run(scorer.start(tf.constant(3))).tolist() == [1, 1, 1]
    # States 0 (empty), 1 (<s>) and 4 (<s> a); tokens a, b in one row of the batch, <unk>, b in the other.
    states, token_ids = tf.constant([[0, 1, 4], [1, 0, 4]]), tf.constant([[1, 2], [0, 2]])
    scores, after = session.run(scorer.extend(states, token_ids))
    first = [[-0.5, -0.75], [-0.1, -0.5 - 0.75], [-0.0625 - 0.25 - 0.5, -0.05]]
    second = [[-0.5 - 2, -0.5 - 0.75], [-2, -0.75], [-0.0625 - 0.25 - 2, -0.05]]
    np.testing.assert_allclose(scores, 2 * LOG_10 * np.array([first, second]), rtol=1e-6)
    assert after.tolist() == [[[2, 3], [4, 3], [2, 3]], [[0, 3], [0, 3], [0, 3]]]
    np.testing.assert_allclose(
        session.run(scorer.finish(tf.constant([[0, 3, 4]]))),
        2 * LOG_10 * np.array([[-1, -0.3, -1.3125]]),
        1e-6,
    )


@pytest.mark.long
@pytest.mark.parametrize("tool", ["kenlm", "irstlm"])
def test_random_sentences_score_as_the_definition(session, tool):
    model = arpa.read(str(small_ngrams.DIRECTORY / f"{tool}.arpa"))
    tokens = ["<unk>", *sorted(set(model.words) - {"<unk>", "<s>", "</s>"})]
    scorer = scorers.NgramScorer(back_off.compile_model(model, tokens, tool), 1.0)
    token_ids = np.random.default_rng(2).integers(0, len(tokens), [50, 8])
    states, total = scorer.start(tf.constant(50))[:, None], 0.0
    for column in token_ids.T:
        scores, states = scorer.extend(states, tf.constant(column[:, None], tf.int32))
        total, states = total + scores[:, 0, 0], states[:, :, 0]
    got = session.run(total + scorer.finish(states)[:, 0])
    np.testing.assert_allclose(got, [_score(model, tokens, row) for row in token_ids], rtol=1e-5)


def _score(model, tokens, token_ids) -> float:
    reference = ngram_reference.BackOffModel(model)
    words = ["<s>", *(tokens[index] for index in token_ids), "</s>"]
    return sum(reference.log_prob(tuple(words[:i]), words[i]) for i in range(1, len(words)))


def test_arrays_can_be_tensors_and_the_loop_a_while_loop(session, arrays):
    """Batch size and beam width are unknown and the weight is a tensor, as in beam search."""
    weight = tf.compat.v1.placeholder(tf.float32, [])
    tensors = {name: tf.constant(value) for name, value in vars(arrays).items() if name != "order"}
    scorer = scorers.NgramScorer(dataclasses.replace(arrays, **tensors), weight)
    token_ids = tf.compat.v1.placeholder(tf.int32, [None, None])

    def step(i, states, total):
        scores, states = scorer.extend(states, token_ids[:, i : i + 1])
        return i + 1, states[:, :, 0], total + scores[:, :, 0]

    states = scorer.start(tf.shape(token_ids)[0])[:, None]
    start = [tf.constant(0), states, tf.zeros(tf.shape(states))]
    shapes = [tf.TensorShape([]), *[tf.TensorShape([None, None])] * 2]
    _, states, total = tf.while_loop(lambda i, *_: i < tf.shape(token_ids)[1], step, start, shapes)
    got = session.run(total + scorer.finish(states), {token_ids: [[1, 2], [2, 1]], weight: 0.5})
    # <s> a b </s>: -0.1 - 0.05 - 0.3; <s> b a </s>: -0.5 - 0.75, -0.125 - 0.5, -0.25 - 1.
    np.testing.assert_allclose(got, 0.5 * LOG_10 * np.array([[-0.45], [-3.125]]), rtol=1e-6)


def test_whole_sequences_of_several_lengths(session, tmp_path):
    model, tokens = arpa.read(small_ngrams.write(tmp_path)), ["<unk>", "a", "b"]
    scorer = scorers.NgramScorer(back_off.compile_model(model, tokens, "small.arpa"), 0.5)
    ids, counts = tf.constant([[1, 2], [2, 1], [1, -1], [-1, -1]]), tf.constant([2, 2, 1, 0])
    got = session.run(scorers.score_sequences(scorer, ids, counts))
    expected = [_score(model, tokens, row) for row in ([1, 2], [2, 1], [1], [])]
    np.testing.assert_allclose(got, 0.5 * np.array(expected), rtol=1e-5)


def test_a_model_of_unigrams_needs_no_lookup(session, tmp_path):
    text = "\\data\\\nngram 1=3\n\n\\1-grams:\n-99 <s>\n-1 </s>\n-0.5 a\n\n\\end\\\n"
    model = arpa.read(small_ngrams.write(tmp_path, text))
    scorer = scorers.NgramScorer(back_off.compile_model(model, ["<unk>", "a"], "x"), 1.0)
    scores, states = session.run(scorer.extend(tf.constant([[0, 0]]), tf.constant([[1, 0]])))
    np.testing.assert_allclose(scores / LOG_10, [[[-0.5, -7]] * 2], rtol=1e-6)
    assert states.tolist() == [[[0, 0]] * 2]
