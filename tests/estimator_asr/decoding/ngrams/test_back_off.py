import ngram_reference
import numpy as np
import pytest
import small_ngrams

from estimator_asr.decoding.ngrams import arpa, back_off
from tfrecord_builder import errors

LOG_10 = np.log(10)


@pytest.fixture
def model(tmp_path):
    return arpa.read(small_ngrams.write(tmp_path))


def test_arrays_equal_those_computed_by_hand(model):
    arrays = back_off.compile_model(model, ["<unk>", "a", "b", "c"], "small.arpa")
    # States: 0 the empty context, 1 <s>, 2 a, 3 b, 4 <s> a. a b has no back-off weight and no longer n-gram.
    assert arrays.order == 3 and arrays.start_state == 1
    np.testing.assert_allclose(arrays.back_off_weights / LOG_10, [0, -0.5, -0.25, -0.125, -0.0625], rtol=1e-6)
    assert arrays.back_off_states.tolist() == [0, 0, 0, 0, 2]
    # <s> a, a b, <s> a b; after a b the longest context is b.
    assert arrays.keys.tolist() == [-1, 1 * 4 + 1, 2 * 4 + 2, 4 * 4 + 2]
    np.testing.assert_allclose(arrays.log_probs[1:] / LOG_10, [-0.1, -0.2, -0.05], rtol=1e-6)
    assert arrays.next_states[1:].tolist() == [4, 3, 3]
    np.testing.assert_allclose(arrays.unigram_log_probs / LOG_10, [-2, -0.5, -0.75, -2], rtol=1e-6)
    assert arrays.unigram_states.tolist() == [0, 2, 3, 0]
    # </s>: -1; after <s> -0.5 - 1; a -0.25 - 1; b -0.3 itself; <s> a -0.0625 - 0.25 - 1.
    np.testing.assert_allclose(arrays.end_log_probs / LOG_10, [-1, -1.5, -1.25, -0.3, -1.3125], rtol=1e-6)
    dtypes = [array.dtype.name for array in list(vars(arrays).values())[1:]]
    assert dtypes == ["int64", "float32", "int32", "float32", "int32", "float32", "int32", "float32", "int32"]


def test_words_that_are_not_tokens_are_left_out(model):
    arrays = back_off.compile_model(model, ["<unk>", "b"], "small.arpa")
    assert arrays.keys.tolist() == [-1] and len(arrays.back_off_states) == 3  # 0, <s>, b


def test_ngrams_with_unk_apply_to_every_token_that_the_model_lacks(tmp_path):
    text = small_ngrams.ARPA.replace("ngram 2=3", "ngram 2=5")
    text = text.replace("-0.2\ta b\n", "-0.2\ta b\n-0.4\ta <unk>\n-0.6\t<unk> b\n")
    model = arpa.read(small_ngrams.write(tmp_path, text))
    arrays = back_off.compile_model(model, ["<unk>", "a", "b", "c"], "small.arpa")
    of_unknown = arrays.unigram_states[0]
    assert of_unknown > 0 and arrays.unigram_states[3] == of_unknown
    found = dict(zip(arrays.keys.tolist(), (arrays.log_probs / LOG_10).tolist()))
    a = arrays.unigram_states[1]
    assert found[a * 4 + 0] == found[a * 4 + 3] == pytest.approx(-0.4)
    assert found[of_unknown * 4 + 2] == pytest.approx(-0.6)


def test_without_unk_unknown_tokens_have_a_minimum_probability(tmp_path):
    text = small_ngrams.ARPA.replace("ngram 1=5", "ngram 1=4").replace("-2\t<unk>\n", "")
    model = arpa.read(small_ngrams.write(tmp_path, text))
    arrays = back_off.compile_model(model, ["<unk>", "a", "c"], "small.arpa")
    np.testing.assert_allclose(arrays.unigram_log_probs / LOG_10, [-7, -0.5, -7], rtol=1e-6)
    assert arrays.unigram_states.tolist() == [0, 2, 0]
    said = back_off.describe_missing(model, ["<unk>", "a", "c"], "x.arpa")
    assert said == "x.arpa: the n-gram model lacks 1 of 3 tokens (c); these tokens get the probability 1e-7"


def test_the_warning_counts_the_missing_tokens(model):
    tokens = ["<unk>", "a", *"cdefgh"]
    assert back_off.describe_missing(model, tokens, "x.arpa") == (
        "x.arpa: the n-gram model lacks 6 of 8 tokens (c, d, e, f, g, ...); "
        "these tokens get the probability of <unk>"
    )
    assert back_off.describe_missing(model, ["<unk>", "a", "b"], "x.arpa") is None


def test_a_model_without_any_of_the_tokens_is_refused(model):
    said = (
        r"x.arpa: the n-gram model has the words a, b, but none of the 3 tokens .* \(ni3, hao3\); "
        r"train another n-gram model with python -m estimator_asr.train_ngram \(for a language model, with "
        r"--unit=character\)"
    )
    with pytest.raises(errors.UserError, match=said):
        back_off.compile_model(model, ["<unk>", "ni3", "hao3"], "x.arpa")


@pytest.mark.parametrize("tool", ["kenlm", "irstlm"])
def test_every_state_scores_according_to_the_definition(tool):
    model = arpa.read(str(small_ngrams.DIRECTORY / f"{tool}.arpa"))
    reference = ngram_reference.BackOffModel(model)
    tokens = ["<unk>", "not5", *sorted(set(model.words) - {"<unk>", "<s>", "</s>"})]
    arrays = back_off.compile_model(model, tokens, tool)
    rng = np.random.default_rng(1)
    for _ in range(40):
        state, context = int(arrays.start_state), ("<s>",)
        for token in rng.integers(0, len(tokens), 9):
            expected = reference.log_prob(context, tokens[token])
            log_prob, state = score(arrays, state, token)
            assert log_prob == pytest.approx(expected, rel=1e-5)
            assert arrays.end_log_probs[state] == pytest.approx(
                reference.log_prob((*context, tokens[token]), "</s>"), rel=1e-5
            )
            context = (*context, tokens[token])


def score(arrays, state, token) -> tuple[float, int]:
    """Returns log probability and next state according to the docstring of BackOffArrays."""
    key = state * len(arrays.unigram_states) + token
    place = int(np.searchsorted(arrays.keys, key))
    if place < len(arrays.keys) and arrays.keys[place] == key:
        return float(arrays.log_probs[place]), int(arrays.next_states[place])
    if state == 0:
        return float(arrays.unigram_log_probs[token]), int(arrays.unigram_states[token])
    log_prob, after = score(arrays, int(arrays.back_off_states[state]), token)
    return float(arrays.back_off_weights[state]) + log_prob, after
