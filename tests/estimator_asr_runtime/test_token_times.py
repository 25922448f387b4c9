import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import joining, token_times


def test_times_match_values_computed_by_hand():
    times = token_times.align(runtime_models.make_log_probs([4, 1, 1, 4, 1, 2], most=0.8)[0], [1, 1, 2])
    assert times.starts.tolist() == [1, 4, 5]
    assert times.ends.tolist() == [3, 5, 6]
    np.testing.assert_allclose(times.probs, 0.8, rtol=1e-6)


def test_each_token_has_a_frame_even_if_it_is_nowhere_the_most_probable():
    times = token_times.align(runtime_models.make_log_probs([2, 2, 2], most=0.8)[0], [1, 2])
    assert (times.starts.tolist(), times.ends.tolist()) == ([0, 1], [1, 3])


def test_no_tokens_have_no_times():
    times = token_times.align(runtime_models.make_log_probs([4, 4])[0], [])
    assert [each.tolist() for each in times] == [[], [], []]


@pytest.mark.parametrize("seed", range(5))
def test_times_equal_those_of_tensorflow(seed):
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.decoding.search import token_times as graph_times

    rng = np.random.default_rng(seed)
    ids = np.int32(rng.integers(0, 4, rng.integers(1, 12)))
    logits = rng.normal(size=[rng.integers(30, 60), 20]) * 3
    log_probs = np.float32(logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True)))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        args = log_probs[None], np.int32([len(log_probs)]), ids[None], np.int32([len(ids)])
        expected = session.run(graph_times.align(*map(tf.constant, args)))
    for found, wanted in zip(token_times.align(log_probs, ids), expected):
        np.testing.assert_allclose(found, wanted[0], rtol=1e-6)


def test_initials_and_finals_become_syllables():
    tokens = ["zh", "ong1", "i1", "A"]
    times = token_times.TokenTimes(
        np.array([1, 3, 6, 8]), np.array([2, 5, 7, 9]), np.array([0.9, 0.5, 0.7, 0.8])
    )
    assert joining.join_syllables(tokens) == ["zhong1", "yi1", "a"]
    merged = joining.merge_times(times, tokens)
    assert [each.tolist() for each in merged] == [[1, 6, 8], [5, 7, 9], [0.5, 0.7, 0.8]]


def test_joining_equals_that_of_the_builder_and_the_export():
    pytest.importorskip("tensorflow")
    from estimator_asr.exporting.saved_model import model_pairs
    from tfrecord_builder.data import syllables as of_builder
    from tfrecord_builder.data import vocabulary

    assert joining.JOININGS == vocabulary.JOININGS
    assert (joining.INITIAL, joining.FINAL) == (of_builder.INITIAL, of_builder.FINAL)
    ours = dict(joining.SYLLABLES)
    assert ours.pop("initial_final") == ours["syllable"]
    assert ours == model_pairs.SYLLABLES


def test_no_tokens_become_no_syllables():
    times = token_times.TokenTimes(np.zeros(0, int), np.zeros(0, int), np.zeros(0, np.float32))
    assert [each.tolist() for each in joining.merge_times(times, [])] == [[], [], []]
