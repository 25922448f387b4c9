from __future__ import annotations

import numpy as np
import small_records
import tensorflow as tf

from estimator_asr.experiment import config, experiment, model_directory, training_config
from estimator_asr.tasks import language


def pair(num_tokens, length, characters, num_characters):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        labels = {"character_ids": tf.constant(characters), "num_characters": tf.constant(num_characters)}
        return session.run(language.pair_characters(tf.constant(num_tokens), tf.constant(length), labels))


def test_characters_are_cut_or_padded_to_the_tokens():
    targets, _ = pair([3, 1], 3, [[7, 8], [9, 0]], [2, 1])
    np.testing.assert_array_equal(targets, [[7, 8, 0], [9, 0, 0]])
    targets, _ = pair([1], 1, [[7, 8]], [2])
    np.testing.assert_array_equal(targets, [[7]])


def test_an_utterance_without_one_character_a_token_does_not_count():
    _, is_paired = pair([2, 2], 2, [[7, 8], [9, 0]], [2, 1])
    np.testing.assert_array_equal(is_paired, [1, 0])


def test_the_error_rate_counts_all_and_the_loss_what_has_one_character_a_token(tmp_path):
    info = small_records.make_data(str(tmp_path / "data"))
    settings = experiment.ExperimentConfig.for_data(
        info,
        language=config.LanguageConfig(language_layers=1, language_units=16, ngram_rows=0),
        train=training_config.TrainConfig(model="language"),
    )
    model = model_directory.create_or_check(str(tmp_path / "model"), settings, str(tmp_path / "data"))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = {"token_ids": tf.constant([[1, 2], [1, 2]]), "num_tokens": tf.constant([2, 2])}
        impossible = [1, 1]  # 你 goes with neither token: each is an error
        labels = {
            "character_ids": tf.constant([impossible, [1, 0]]),  # 你 alone for two tokens
            "num_characters": tf.constant([2, 1]),
        }
        forward = language.Language(model).forward(features, labels, training=False)
        session.run(tf.compat.v1.global_variables_initializer())
        # Two wrong characters for a reference of two, and two for one.
        assert session.run(forward.ratios["character-error-rate"]) == (4, 3)
        assert session.run([forward.losses.total, forward.losses.num_labels]) == [0, 0]
        assert session.run(forward.ratios["used-label-fraction"]) == (0, 3)
