"""The punctuation model: its independence of padding, its size, and the choice of marks."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import train_command
from estimator_asr.models import punctuation
from tfrecord_builder.data import marks

SMALL = config_lib.PunctuationConfig(layers=1, units=16, inner_units=32, heads=2, ngram_rows=97)


def build(config, character_ids, num_characters, seed=None):
    seed = None if seed is None else tf.constant(seed, tf.int64)
    ids, counts = tf.constant(character_ids, tf.int32), tf.constant(num_characters, tf.int32)
    return punctuation.build(config, ids, counts, vocabulary_size=9, seed=seed)


def run(*arguments, **options):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        logits = build(*arguments, **options)
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run(logits)


def test_there_is_a_logit_for_each_mark():
    assert punctuation.NUM_MARKS == len(marks.MARKS)
    logits = run(SMALL, [[1, 2, 3]], [3])
    assert logits.shape == (1, 3, 8) and logits.dtype == np.float32


def test_padding_changes_nothing():
    alone, padded = run(SMALL, [[1, 2]], [2]), run(SMALL, [[1, 2, 7, 7]], [2])
    np.testing.assert_allclose(padded[:, :2], alone, atol=1e-5)


def test_what_follows_counts_too():
    first, second = run(SMALL, [[1, 2, 3], [1, 2, 4]], [3, 3])
    assert np.abs(first[0] - second[0]).max() > 1e-3


def test_training_replaces_characters_by_the_unknown_one():
    config = dataclasses.replace(SMALL, unknown_rate=1.0, dropout=0.0, ngram_dropout=0.0)
    trained, served = run(config, [[1, 2]], [2], seed=[1, 2]), run(config, [[0, 0]], [2])
    np.testing.assert_allclose(trained, served, atol=1e-5)


def test_all_variables_are_in_one_scope():
    with tf.Graph().as_default():
        build(SMALL, [[1]], [1])
        names = {variable.op.name for variable in tf.compat.v1.global_variables()}
    assert {name.partition("/")[0] for name in names} == {"punctuation"}
    assert "punctuation/characters" in names


@pytest.mark.parametrize("size", train_command.PUNCTUATION_SIZES)
def test_no_size_has_more_than_ten_million_weights(size):
    with tf.Graph().as_default():
        ids, counts = tf.constant([[1]]), tf.constant([1])
        config = train_command.PUNCTUATION_SIZES[size]
        punctuation.build(config, ids, counts, vocabulary_size=8000)
        shapes = [variable.shape for variable in tf.compat.v1.trainable_variables()]
    assert sum(shape.num_elements() for shape in shapes) <= 10_000_000


def test_a_mark_is_written_unless_no_mark_is_probable_enough():
    # No mark, comma, stop: the most probable class alone would leave out the second mark.
    probs = np.full([1, 3, 8], 1e-9, np.float32)
    probs[0, :, :3] = [[0.61, 0.2, 0.19], [0.55, 0.2, 0.25], [0.1, 0.8, 0.1]]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ids, chosen = session.run(punctuation.choose(tf.math.log(tf.constant(probs))))
    assert ids.tolist() == [[0, 2, 1]]
    np.testing.assert_allclose(chosen, [[0.61, 0.25, 0.8]], atol=1e-6)
