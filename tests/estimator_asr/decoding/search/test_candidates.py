"""Candidates compared with a masked softmax over all characters."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import candidates

# Token 0 may be anything, token 1 is always character 1, token 2 is character 2 or 3.
ALLOWED = np.array([[1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 1, 1]], bool)
TOKENS = np.array([[1, 2, 2], [2, 0, 0]], np.int32)
NUM_TOKENS = np.array([3, 2], np.int32)
POSITIONS = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4]
CHARACTERS = [1, 2, 3, 2, 3, 2, 3, 0, 1, 2, 3]


def run(function, token_ids=TOKENS, num_tokens=NUM_TOKENS, logits=None):
    """Runs function(candidates) with the logits given, or random ones."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pairs = candidates.list_pairs(tf.constant(token_ids), tf.constant(num_tokens), ALLOWED)
        if logits is None:
            logits = np.random.RandomState(0).normal(size=session.run(tf.size(pairs.positions)))
        logits = tf.constant(logits, tf.float32)
        scored = candidates.ScoredPairs(logits, pairs.positions, pairs.characters, tf.shape(token_ids))
        return session.run(function(scored, pairs))


def dense_log_probs(scored, shape):
    """Returns the log of a masked softmax over all characters, [batch x length, characters]."""
    logits = np.full([np.prod(shape), ALLOWED.shape[1]], -np.inf)
    logits[scored.positions, scored.characters] = scored.logits
    with np.errstate(divide="ignore", invalid="ignore"):
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def test_pairs_are_the_allowed_characters_of_the_real_tokens():
    pairs = run(lambda scored, pairs: pairs)
    assert pairs.positions.tolist() == POSITIONS
    assert pairs.characters.tolist() == CHARACTERS
    assert pairs.readings.tolist() == [4, 5, 6, 5, 6, 5, 6, 0, 1, 2, 3]


def test_ids_at_padding_do_not_matter():
    garbage = TOKENS.copy()
    garbage[1, 2] = 2
    assert run(lambda scored, pairs: pairs, garbage).positions.tolist() == POSITIONS


def test_cross_entropy_is_that_of_the_masked_softmax():
    labels = np.array([[1, 3, 2], [3, 2, 0]], np.int32)
    scored, (losses, weights) = run(
        lambda scored, pairs: (scored, candidates.cross_entropy(scored, tf.constant(labels)))
    )
    log_probs = dense_log_probs(scored, TOKENS.shape)[:5]  # the last position is padding
    expected = -log_probs[np.arange(5), labels.ravel()[:5]]
    np.testing.assert_allclose(losses.ravel(), [*expected, 0], atol=1e-6)
    assert weights.tolist() == [[1, 1, 1], [1, 1, 0]]


def test_label_that_is_no_candidate_has_no_loss_and_no_weight():
    labels = np.array([[2, -1, 3], [2, 2, 0]], np.int32)
    losses, weights = run(lambda scored, pairs: candidates.cross_entropy(scored, tf.constant(labels)))
    assert weights.tolist() == [[0, 0, 1], [1, 1, 0]]
    assert losses[0, :2].tolist() == [0, 0] and losses[0, 2] > 0


def test_best_is_the_likeliest_character():
    scored, best = run(lambda scored, pairs: (scored, candidates.best(scored)))
    log_probs = dense_log_probs(scored, TOKENS.shape)[:5]
    assert best.characters.ravel().tolist() == [*log_probs.argmax(axis=1), -1]
    np.testing.assert_allclose(best.log_probs.ravel(), [*log_probs.max(axis=1), 0], atol=1e-6)


def test_extreme_logits_stay_finite():
    logits = np.where(np.arange(11) % 2, 1e4, -1e4)
    losses, _ = run(
        lambda scored, pairs: candidates.cross_entropy(scored, tf.constant(TOKENS)), logits=logits
    )
    assert np.isfinite(losses).all()


def test_empty_utterances_have_no_best_characters():
    best = run(lambda scored, pairs: candidates.best(scored), num_tokens=np.array([0, 0], np.int32))
    assert best.characters.tolist() == [[-1] * 3] * 2
    assert best.log_probs.tolist() == [[0] * 3] * 2


def test_gradient_is_softmax_minus_target():
    labels = np.array([[1, 3, 2], [3, 2, 0]], np.int32)

    def gradient(scored, pairs):
        losses, _ = candidates.cross_entropy(scored, tf.constant(labels))
        return scored, tf.gradients(tf.reduce_sum(losses), scored.logits)[0]

    scored, gradients = run(gradient)
    probs = np.exp(dense_log_probs(scored, TOKENS.shape)[scored.positions, scored.characters])
    is_label = scored.characters == labels.ravel()[scored.positions]
    np.testing.assert_allclose(gradients, probs - is_label, atol=1e-6)


@pytest.mark.long
def test_padded_pairs_change_neither_losses_nor_gradients_nor_the_best():
    """Six positions with sixteen candidates each have 96 pairs, and 128 is the next power of two."""
    results = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        labels = tf.constant([[1, 3, 2], [3, 2, 0]])
        table = tf.random.stateless_normal([4, 1], [1, 2])
        for is_padded in (False, True):
            pairs = candidates.list_pairs(tf.constant(TOKENS), tf.constant(NUM_TOKENS), ALLOWED, is_padded)
            scores = tf.gather(table, tf.maximum(pairs.characters, 0))[:, 0]
            logits = tf.where(pairs.characters >= 0, scores, -3e4)
            scored = candidates.ScoredPairs(logits, pairs.positions, pairs.characters, tf.shape(TOKENS))
            losses, weights = candidates.cross_entropy(scored, labels)
            gradient = tf.convert_to_tensor(tf.gradients(losses, table)[0])
            results.append(
                session.run([losses, weights, gradient, candidates.best(scored)._asdict(), logits])
            )
    plain, padded = results
    assert [len(result[-1]) for result in results] == [11, 128]
    for expected, value in zip(plain[:3], padded[:3]):
        np.testing.assert_allclose(value, expected, atol=1e-6)
    for key, expected in plain[3].items():
        np.testing.assert_allclose(padded[3][key], expected, atol=1e-6)


def test_more_pairs_than_usual_take_the_next_power_of_two():
    allowed = np.ones([1, 40], bool)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pairs = candidates.list_pairs(tf.zeros([1, 2], tf.int32), tf.constant([2]), allowed, True)
        positions, characters = session.run([pairs.positions, pairs.characters])
    assert len(positions) == 128
    assert positions[:80].tolist() == [0] * 40 + [1] * 40 and not positions[80:].any()
    assert characters[:80].tolist() == [*range(40)] * 2 and set(characters[80:]) == {-1}
