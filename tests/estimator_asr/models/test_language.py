"""The language model: its candidates, its independence of padding, and training on context."""

import graph_variables
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import candidates
from estimator_asr.experiment import config as config_lib
from estimator_asr.models import language
from tfrecord_builder import errors

# Token 0 may be anything; tokens 1 and 2 have two characters each, token 3 has one.
ALLOWED = np.array([[1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1]], bool)
PARTS = np.array([[0, 0], [1, 0], [1, 0], [0, 1]], np.float32)


def make_config(**changes):
    settings = {"language_layers": 1, "language_units": 16, "language_heads": 2, "language_inner_units": 32}
    return config_lib.LanguageConfig(**{**settings, "ngram_rows": 97, "ngram_units": 8, **changes})


def build(config, token_ids, num_tokens, seed=None, token_parts=None):
    return language.build(
        config,
        tf.convert_to_tensor(token_ids, tf.int32),
        tf.constant(num_tokens, tf.int32),
        token_vocabulary_size=ALLOWED.shape[0],
        character_vocabulary_size=ALLOWED.shape[1],
        character_mask=ALLOWED,
        token_parts=token_parts,
        seed=seed,
    )


def score(token_ids, num_tokens, config=None, **arguments):
    """Returns the scored candidates with initial weights, which are the same for the same config."""
    return graph_variables.run(lambda: build(config or make_config(), token_ids, num_tokens, **arguments))


def logits_of(scored, utterance):
    """Returns the logits of one utterance of the batch."""
    return scored.logits[scored.positions // scored.shape[1] == utterance]


def test_only_characters_that_the_mask_allows_are_scored():
    scored = score([[1, 3, 2], [0, 1, 0]], [3, 2])
    assert scored.positions.tolist() == [0, 0, 1, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4]
    assert scored.characters.tolist() == [1, 2, 5, 3, 4, 0, 1, 2, 3, 4, 5, 1, 2]
    assert scored.shape.tolist() == [2, 3]


@pytest.mark.parametrize("ngram_rows", [0, 97])
def test_padding_and_neighbours_in_the_batch_change_nothing(ngram_rows):
    config = make_config(ngram_rows=ngram_rows)
    alone = score([[1, 2, 3]], [3], config)
    padded = score([[2, 1, 2, 1, 2, 1], [1, 2, 3, 0, 1, 2]], [6, 3], config)
    np.testing.assert_allclose(logits_of(padded, 1), logits_of(alone, 0), atol=1e-5)


def test_an_utterance_without_tokens_leaves_the_others_finite():
    scored = score([[0, 0], [1, 0]], [0, 1])
    assert scored.positions.tolist() == [2, 2] and np.isfinite(scored.logits).all()


@pytest.mark.parametrize("rate, is_changed", [(0.0, False), (0.9, True)])
def test_ngrams_are_left_out_in_training_alone(rate, is_changed):
    config = make_config(ngram_dropout=rate, language_dropout=0.0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        logits = []
        for seed in (None, None, [1, 2]):
            with tf.compat.v1.variable_scope("", reuse=tf.compat.v1.AUTO_REUSE):
                logits.append(build(config, [[1, 2, 3]], [3], seed).logits)
        session.run(tf.compat.v1.global_variables_initializer())
        (table,) = (v for v in tf.compat.v1.global_variables() if v.op.name.endswith("/ngrams"))
        session.run(table.assign(tf.random.normal(table.shape)))
        served, again, trained = session.run(logits)
    np.testing.assert_allclose(served, again, atol=1e-5)
    assert (np.abs(trained - served).max() > 0.1) == is_changed


def test_parts_are_shared_by_tokens():
    def difference(token_parts):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            scored = build(make_config(ngram_rows=0), [[1, 3], [2, 3]], [2, 2], token_parts=token_parts)
            session.run(tf.compat.v1.global_variables_initializer())
            table = next(v for v in tf.compat.v1.global_variables() if v.op.name == "language/tokens")
            session.run(table.assign(tf.zeros_like(table)))
            scored = session.run(scored)
        return np.abs(logits_of(scored, 0)[-1] - logits_of(scored, 1)[-1])

    assert difference(PARTS) < 1e-6  # tokens 1 and 2 have the same parts
    assert difference(np.eye(4, dtype=np.float32)) > 1e-4


def test_tokens_are_swapped_in_training_alone():
    tokens, lengths = np.full([50, 40], 3), [40] * 50
    config = make_config(token_noise=0.25)
    assert set(score(tokens, lengths, config).characters) == {5}
    swapped = score(tokens, lengths, config, seed=[1, 2])
    fraction = np.mean(np.bincount(swapped.positions, swapped.characters != 5, minlength=2000) > 0)
    assert abs(fraction - 0.25 * 2 / 3) < 0.03  # one of three random tokens is the token itself
    assert 0 not in swapped.characters  # no token is replaced with <unk>


def _train(make_batch, steps=220, **changes):
    """Returns the fraction of wrong characters on a fresh batch after training."""
    config = make_config(language_dropout=0.0, **changes)
    random = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        tokens = tf.compat.v1.placeholder_with_default(make_batch(random)[0], [None, None])
        labels = tf.compat.v1.placeholder(tf.int32, [None, None])
        scored = build(config, tokens, [8] * 32, seed=[1, 2])
        losses, _ = candidates.cross_entropy(scored, labels)
        train_op = tf.compat.v1.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(losses))
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(steps):
            session.run(train_op, dict(zip((tokens, labels), make_batch(random))))
        token_ids, character_ids = make_batch(random)
        best = session.run(candidates.best(scored).characters, {tokens: token_ids})
    return np.mean(best != character_ids)


def _make_batch(distance):
    """Tokens 1 and 2 become their first character if the token `distance` later is 3, else their second."""

    def make_batch(random):
        tokens = random.randint(1, 4, [32, 8 + distance])
        is_first = tokens[:, distance:] == 3
        tokens = tokens[:, :8]
        if distance < 8:
            is_first[:, 8 - distance :] = False
        characters = np.where(tokens == 3, 5, 2 * tokens - is_first)
        return tokens.astype(np.int32), characters.astype(np.int32)

    return make_batch


@pytest.mark.long
@pytest.mark.parametrize(("distance", "ngram_rows"), [(1, 0), (1, 97), (4, 97)])
def test_the_model_learns_characters_from_context(distance, ngram_rows):
    assert _train(_make_batch(distance), ngram_rows=ngram_rows) < 0.03


def test_names_and_shapes_of_variables_are_those_in_checkpoints():
    with tf.Graph().as_default():
        build(make_config(), [[1]], [1], token_parts=PARTS)
        variables = {v.op.name: v.shape.as_list() for v in tf.compat.v1.trainable_variables()}
    layer = "language/layer_0/"
    assert variables == {
        "language/tokens": [4, 16],
        "language/token_parts": [2, 16],
        "language/ngrams": [97, 8],
        "language/ngram_projection/kernel": [8, 16],
        f"{layer}attention_norm/scale": [16],
        f"{layer}attention_norm/shift": [16],
        f"{layer}self_attention/query_key_value/kernel": [16, 48],
        f"{layer}self_attention/query_key_value/bias": [32],
        f"{layer}self_attention/output/kernel": [16, 16],
        f"{layer}self_attention/output/bias": [16],
        f"{layer}feed_forward_norm/scale": [16],
        f"{layer}feed_forward_norm/shift": [16],
        f"{layer}feed_forward/inner/kernel": [16, 32],
        f"{layer}feed_forward/inner/bias": [32],
        f"{layer}feed_forward/outer/kernel": [32, 16],
        f"{layer}feed_forward/outer/bias": [16],
        "language/final_norm/scale": [16],
        "language/final_norm/shift": [16],
        "language/characters": [6, 16],
        "language/reading_bias": [11],
    }


@pytest.mark.parametrize("units, heads", [(18, 4), (3, 1)])
def test_units_that_heads_do_not_divide_evenly_are_refused(units, heads):
    message = f"--language_units is {units}, expected an even number and a multiple of {heads}, the number of"
    with pytest.raises(errors.UserError, match=message):
        config_lib.LanguageConfig(language_units=units, language_heads=heads)
