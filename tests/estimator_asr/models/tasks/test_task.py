"""Serving builds and restores the variables that training saves, for each architecture and token type."""

import dataclasses

import numpy as np
import pytest
import small_models
import small_records
import tensorflow as tf

from estimator_asr.experiment import config, experiment, training_config
from estimator_asr.exporting.saved_model import cascade
from estimator_asr.models.tasks import tasks

SMALL = dict(encoder_layers=1, encoder_units=16, encoder_inner_units=16, attention_heads=2)
SEED = [1, 2]
FEATURES = {
    "fbank": np.zeros([2, 40, 12], np.float32),
    "num_frames": [40, 33],
    "token_ids": [[1, 2], [3, 0]],
    "num_tokens": [2, 1],
}
LABELS = {"character_ids": [[1, 2], [3, 0]], "num_characters": [2, 1]}


def make_model(tmp_path, token_type="syllable", **sections):
    path = str(tmp_path / "data")
    info = dataclasses.replace(small_records.make_data(path), token_type=token_type)
    settings = experiment.ExperimentConfig.for_data(info, **sections)
    return small_models.create_or_check(str(tmp_path / "model"), settings, path)


def variables_of(build):
    with tf.Graph().as_default():
        build()
        return {variable.op.name: variable.shape.as_list() for variable in tf.compat.v1.global_variables()}


def constants(values):
    return {name: tf.constant(value) for name, value in values.items()}


@pytest.mark.long
@pytest.mark.parametrize("encoder", ["conformer", "transformer", "cnn"])
@pytest.mark.parametrize("token_type", ["syllable", "character"])
def test_an_acoustic_model_that_was_trained_can_be_served(tmp_path, encoder, token_type):
    model = make_model(tmp_path, token_type, acoustic=config.AcousticConfig(encoder=encoder, **SMALL))

    def train():
        features = constants(FEATURES)
        tasks.for_model(model).forward({**features, "seed": SEED}, features, training=True)

    trained = variables_of(train)
    served = variables_of(lambda: cascade.recognise(model, constants(FEATURES)))
    assert served.items() <= trained.items()
    assert {name.split("/")[1] for name in trained.keys() - served.keys()} == {"decoder"}
    assert any("part_vectors" in name for name in served) == (token_type == "syllable")


@pytest.mark.long
def test_dropout_and_the_weights_of_losses_do_not_change_the_variables(tmp_path):
    def variables(name, **settings):
        section = config.AcousticConfig(decoder_layers=1, **SMALL, **settings)
        model = make_model(tmp_path / name, acoustic=section)
        inputs = {**FEATURES, "seed": SEED}
        return variables_of(
            lambda: tasks.for_model(model).forward(constants(inputs), constants(FEATURES), True)
        )

    other = variables("other", acoustic_dropout=0.0, ctc_weight=1.0, label_smoothing=0.0)
    assert other == variables("usual") and len(other) > 20


@pytest.mark.long
@pytest.mark.parametrize("ngram_rows", [0, 31])
def test_a_language_model_that_was_trained_can_be_served(tmp_path, ngram_rows):
    model = make_model(
        tmp_path,
        language=config.LanguageConfig(ngram_rows=ngram_rows, language_units=16, language_layers=1),
        train=training_config.TrainConfig(model="language"),
    )
    trained = variables_of(
        lambda: tasks.for_model(model).forward(
            constants({**FEATURES, "seed": SEED}), constants(LABELS), training=True
        )
    )
    served = variables_of(lambda: cascade.recognise(model, constants(FEATURES)))
    assert served == trained
    assert any("ngram" in name for name in served) == (ngram_rows > 0)
