"""The encoder that the language and the punctuation model share: hashed n-grams, layers, replaced ids."""

import graph_variables
import numpy as np
import tensorflow as tf

from estimator_asr.models import token_encoder


def test_ngrams_are_numbered_by_window_and_content():
    tokens, mask = [[1, 2, 3]], [[1.0, 1.0, 0.0]]
    rows = graph_variables.run(
        lambda: token_encoder.hash_ngrams(tf.constant(tokens), tf.constant(mask), 4, 10**6)
    )[0]
    # Base 5: the window, then the tokens' ids + 1; padding and positions beyond the ends are 0.
    first, second = ["002", "123", "2023", "3002", "4230"], ["023", "130", "2230", "3023", "4300"]
    assert rows[:2].tolist() == [[int(number, 5) for number in numbers] for numbers in (first, second)]


def test_ngram_rows_stay_inside_the_table():
    tokens = [[1999, 1998, 1997]]
    rows = graph_variables.run(
        lambda: token_encoder.hash_ngrams(tf.constant(tokens), tf.ones([1, 3]), 2000, 97)
    )
    assert rows.shape == (1, 3, 5) and rows.min() >= 0 and rows.max() < 97


def test_a_fraction_of_the_ids_is_replaced_by_ids_of_the_range():
    ids = np.full([50, 100], 9)
    replaced = graph_variables.run(
        lambda: token_encoder.replace_some(tf.constant(ids, tf.int32), 0.2, tf.constant([1, 2]), 3, 6)
    )
    assert set(np.unique(replaced)) == {3, 4, 5, 9}
    assert 0.17 < np.mean(replaced != 9) < 0.23
