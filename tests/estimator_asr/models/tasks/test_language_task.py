import numpy as np
import small_models
import small_records
import tensorflow as tf
import tiny_models
from graph_variables import run

from estimator_asr.experiment import config, experiment, training_config
from estimator_asr.models.tasks import language_task


def pair(num_tokens, length, characters, num_characters):
    labels = {"character_ids": np.int32(characters), "num_characters": np.int32(num_characters)}
    return run(lambda: language_task.pair_characters(np.int32(num_tokens), tf.constant(length), labels))


def test_characters_are_cut_or_padded_to_the_tokens():
    targets, _ = pair([3, 1], 3, [[7, 8], [9, 0]], [2, 1])
    np.testing.assert_array_equal(targets, [[7, 8, 0], [9, 0, 0]])
    targets, _ = pair([1], 1, [[7, 8]], [2])
    np.testing.assert_array_equal(targets, [[7]])


def test_an_utterance_without_one_character_per_token_does_not_count():
    _, is_paired = pair([2, 2], 2, [[7, 8], [9, 0]], [2, 1])
    np.testing.assert_array_equal(is_paired, [1, 0])


def test_the_error_rate_counts_all_utterances_and_the_loss_those_with_one_character_per_token(tmp_path):
    info = small_records.make_data(str(tmp_path / "data"))
    settings = experiment.ExperimentConfig.for_data(
        info,
        language=config.LanguageConfig(language_layers=1, language_units=16, ngram_rows=0),
        train=training_config.TrainConfig(model="language"),
    )
    model = small_models.create_or_check(str(tmp_path / "model"), settings, str(tmp_path / "data"))
    impossible = [1, 1]  # 你 is a candidate of neither token, so both are errors
    features = {"token_ids": np.int32([[1, 2], [1, 2]]), "num_tokens": np.int32([2, 2])}
    # The second row has one character for two tokens.
    labels = {"character_ids": np.int32([impossible, [1, 0]]), "num_characters": np.int32([2, 1])}

    def build():
        inputs, given = ({k: tf.constant(v) for k, v in part.items()} for part in (features, labels))
        return language_task.Language(model).forward(inputs, given, training=False)

    found = run(build)
    # Two wrong characters for a reference of two, and two for one.
    assert found.ratios["character-error-rate"] == (4, 3)
    assert (found.losses.total, found.losses.num_labels) == (0, 0)
    assert found.ratios["used-label-fraction"] == (0, 3)


def test_given_characters_are_scored_like_decoded_ones(tmp_path):
    """hao3 may be 好 or 郝, but ni3 only 你; 字 is not a candidate of either."""
    model = tiny_models.make_language_model(str(tmp_path / "lm"))
    tokens, characters = (each.encode for each in (model.tokens, model.characters))
    token_ids = np.int32([tokens(["ni3", "hao3"])] * 3)
    given = np.int32([characters("你好"), characters("你郝"), characters("字好")])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        writer, features = (
            language_task.Language(model),
            {"token_ids": token_ids, "num_tokens": np.int32([2, 2, 2])},
        )
        features = {name: tf.constant(value) for name, value in features.items()}
        outputs = writer.build(features)
        scored, best = writer.score(outputs, features, tf.constant(given)), writer.decode(outputs, features)
        session.run(tf.compat.v1.global_variables_initializer())
        (scores, probs), found = session.run([scored, best.scores])
    np.testing.assert_allclose(np.exp(scores[0]) + np.exp(scores[1]), 1.0, rtol=1e-5)
    np.testing.assert_allclose(max(scores[:2]), found[0], rtol=1e-5)
    np.testing.assert_allclose(scores[2], scores[0] - 10.0, rtol=1e-5)
    np.testing.assert_allclose(probs[2], [np.exp(-10.0), probs[0, 1]], rtol=1e-5)
