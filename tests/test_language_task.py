from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_asr.training import language_task


def pair(num_tokens, length, characters, num_characters):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        labels = {"character_ids": tf.constant(characters), "num_characters": tf.constant(num_characters)}
        return session.run(
            language_task.pair_characters(tf.constant(num_tokens), tf.constant(length), labels)
        )


def test_characters_are_cut_or_padded_to_the_tokens():
    targets, _ = pair([3, 1], 3, [[7, 8], [9, 0]], [2, 1])
    np.testing.assert_array_equal(targets, [[7, 8, 0], [9, 0, 0]])
    targets, _ = pair([1], 1, [[7, 8]], [2])
    np.testing.assert_array_equal(targets, [[7]])


def test_an_utterance_without_one_character_a_token_does_not_count():
    _, is_paired = pair([2, 2], 2, [[7, 8], [9, 0]], [2, 1])
    np.testing.assert_array_equal(is_paired, [[1], [0]])
