from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib

import pytest
import small_models
import small_records
from absl import logging

from estimator_asr.experiment import config, experiment, model_directory, training_config
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import vocabulary

OTHER_TOKENS = vocabulary.Vocabulary([*small_records.TOKENS.tokens, "tian1"])


def make_config(info, model="acoustic", **changes):
    made = experiment.ExperimentConfig.for_data(info, train=training_config.TrainConfig(model=model))
    return dataclasses.replace(made, **changes)


@pytest.fixture
def data(tmp_path):
    path = str(tmp_path / "data")
    return small_records.make_data(path), path


@pytest.fixture
def model_dir(tmp_path):
    return str(tmp_path / "model")


@pytest.mark.parametrize("model, num_classes", [("acoustic", 6), ("language", 6)])
def test_a_new_directory_stands_alone(tmp_path, data, model_dir, model, num_classes):
    info, path = data
    made = small_models.create_or_check(model_dir, make_config(info, model), path)
    os.rename(path, tmp_path / "elsewhere")
    opened = model_directory.open_model_directory(model_dir)
    assert opened.config == made.config == make_config(info, model)
    assert opened.tokens.tokens == small_records.TOKENS.tokens and opened.num_classes == num_classes
    assert (opened.characters is None) == (opened.readings is None) == (model == "acoustic")


def test_settings_of_the_training_loop_may_change(data, model_dir):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info), path)
    changed = make_config(info, optimizer=training_config.OptimizerConfig(clip_norm=1.0))
    continued = small_models.create_or_check(model_dir, changed, path).config
    assert continued.optimizer.clip_norm == 1.0
    assert experiment.ExperimentConfig.load(model_dir) == continued


@pytest.fixture
def logged(monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "info", lambda text, *values: lines.append(text % values))
    return lines


# What acts in training alone: all of it changed.
OTHER_TRAINING = {
    "acoustic": (
        config.AcousticConfig(acoustic_dropout=0.2, ctc_weight=0.5),
        "--acoustic_dropout 0.1 -> 0.2, --ctc_weight 0.7 -> 0.5",
    ),
    "language": (
        config.LanguageConfig(ngram_dropout=0.0, language_dropout=0.3, token_noise=0.1),
        "--ngram_dropout 0.2 -> 0.0, --language_dropout 0.1 -> 0.3, --token_noise 0.0 -> 0.1",
    ),
}


@pytest.mark.parametrize("kind", sorted(OTHER_TRAINING))
def test_training_only_settings_may_change_and_one_line_logs_it(data, model_dir, logged, kind):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info, kind), path)
    pathlib.Path(model_dir, "model.ckpt-1.index").touch()
    section, said = OTHER_TRAINING[kind]
    masks = config.InputConfig(spec_augment=False, num_buckets=8)
    rate = training_config.OptimizerConfig(learning_rate=0.0005)
    changed = make_config(info, kind, **{kind: section}, input=masks, optimizer=rate)
    model_directory.check(model_dir, changed, path)
    assert logged == []  # something else may still refuse the run
    for _ in range(2):
        assert small_models.create_or_check(model_dir, changed, path).config == changed
    assert logged == [  # nothing is said of the second run, which changes nothing
        f"{model_dir}: settings changed since the last run: {said}, --learning_rate 0.001 -> 0.0005, "
        "--num_buckets 12 -> 8, --spec_augment True -> False"
    ]


def test_settings_that_are_no_flags_keep_the_values_of_the_directory(data, model_dir, logged):
    info, path = data
    old = {
        "acoustic": config.AcousticConfig(conv_kernel_size=31, label_smoothing=0.0),
        "optimizer": training_config.OptimizerConfig(adam_beta2=0.999, decay_epochs=2.0),
        "input": config.InputConfig(time_masks=1),
    }
    small_models.create_or_check(model_dir, make_config(info, **old), path)
    pathlib.Path(model_dir, "model.ckpt-1.index").touch()
    for continue_in in (model_directory.open_new, small_models.create_or_check):  # workers, the chief
        assert continue_in(model_dir, make_config(info), path).config == make_config(info, **old)
    assert logged == []


def test_changed_shapes_are_refused_and_only_they_are_named(data, model_dir, logged):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info), path)
    pathlib.Path(model_dir, "model.ckpt-1.index").touch()
    wider = config.AcousticConfig(encoder_units=128, acoustic_dropout=0.2)
    said = (
        f"{model_dir}: acoustic is encoder_units=128 in this run, but the directory was trained with "
        "encoder_units=256; use the same flags and data, or another --model_dir"
    )
    with pytest.raises(errors.UserError) as raised:
        small_models.create_or_check(model_dir, make_config(info, acoustic=wider), path)
    assert str(raised.value) == said and logged == []


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            {"frontend": frontend.FrontendConfig(num_mel_bins=40)},
            "frontend is num_mel_bins=40 in this run, but the directory was trained with num_mel_bins=12",
        ),
        ({"tokens_sha256": "abc"}, "tokens_sha256 is abc in this run, but the directory was trained with"),
        (
            {"token_type": "character"},
            "token_type is character in this run, but the directory was trained with syllable",
        ),
        ({"model": "language"}, "model is language in this run, but the directory was trained with acoustic"),
    ],
)
def test_another_model_is_refused_with_both_values(data, model_dir, changes, said):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info), path)
    pathlib.Path(model_dir, "model.ckpt-1.index").touch()
    saved = experiment.ExperimentConfig.load(model_dir)
    with pytest.raises(errors.UserError, match=said):
        small_models.create_or_check(model_dir, make_config(info, **changes), path)
    assert experiment.ExperimentConfig.load(model_dir) == saved


def test_a_directory_without_a_checkpoint_is_made_again(data, model_dir):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info), path)
    other = make_config(info, acoustic=config.AcousticConfig(encoder_layers=3))
    assert small_models.create_or_check(model_dir, other, path).config.acoustic.encoder_layers == 3


def test_a_damaged_vocabulary_of_the_data_is_not_copied(data, model_dir):
    info, path = data
    OTHER_TOKENS.save(os.path.join(path, "tokens.txt"))
    said = "data/tokens.txt: sha256 is .* expected .* as in dataset_info.json; restore the file"
    with pytest.raises(errors.UserError, match=said):
        small_models.create_or_check(model_dir, make_config(info), path)
    assert not os.path.exists(model_dir)


def test_another_language_architecture_does_not_matter_to_an_acoustic_model(data, model_dir):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info), path)
    other = make_config(info, language=config.LanguageConfig(language_layers=1))
    assert small_models.create_or_check(model_dir, other, path).config.language.language_layers == 1


def test_data_of_another_vocabulary_is_refused_with_both_directories(tmp_path, data, model_dir):
    info, path = data
    model = small_models.create_or_check(model_dir, make_config(info), path)
    model_directory.check_data(model_dir, model.config, info, path)
    other = small_records.make_data(str(tmp_path / "other"), tokens=OTHER_TOKENS)
    hashes = f"{OTHER_TOKENS.sha256[:12]}, expected {info.tokens_sha256[:12]}"
    said = f"other: sha256 of tokens.txt is {hashes} as in {model_dir}; build "
    with pytest.raises(errors.UserError, match=said):
        model_directory.check_data(model_dir, model.config, other, str(tmp_path / "other"))


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            {"frontend": frontend.FrontendConfig(num_mel_bins=40)},
            "data: frontend is num_mel_bins=40, expected num_mel_bins=12 as",
        ),
        ({"frontend": None}, "data: frontend is none, expected frontend=log_mel"),
        (
            {"token_type": "character"},
            "data: token_type is character, expected syllable as in .*model; build .* --token_type=syllable ",
        ),
    ],
)
def test_other_data_are_refused_with_both_values(data, model_dir, changes, said):
    info, path = data
    model = small_models.create_or_check(model_dir, make_config(info), path)
    with pytest.raises(errors.UserError, match=said):
        model_directory.check_data(model_dir, model.config, dataclasses.replace(info, **changes), path)


def test_a_language_model_takes_data_with_and_without_audio_but_no_other_characters(
    tmp_path, data, model_dir
):
    info, path = data
    model = small_models.create_or_check(model_dir, make_config(info, "language"), path)
    model_directory.check_data(model_dir, model.config, info, path)
    model_directory.check_data(model_dir, model.config, dataclasses.replace(info, frontend=None), path)
    with pytest.raises(errors.UserError, match="sha256 of characters.txt is abc, expected"):
        model_directory.check_data(
            model_dir, model.config, dataclasses.replace(info, characters_sha256="abc"), path
        )


def test_a_changed_vocabulary_file_is_refused(data, model_dir):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info), path)
    OTHER_TOKENS.save(os.path.join(model_dir, "tokens.txt"))
    with pytest.raises(
        errors.UserError, match="tokens.txt: sha256 is .* expected .* as in config.json; restore"
    ):
        model_directory.open_model_directory(model_dir)


def test_a_missing_directory_is_refused(model_dir):
    with pytest.raises(errors.UserError, match="model directory does not exist; train a model"):
        model_directory.open_model_directory(model_dir)


def test_a_description_is_a_model_directory_without_weights(tmp_path, data, model_dir):
    info, path = data
    model = small_models.create_or_check(model_dir, make_config(info, "language"), path)
    model_directory.copy_description(model, str(tmp_path / "copy"))
    copied = model_directory.open_model_directory(str(tmp_path / "copy"))
    assert dataclasses.replace(copied, path=model.path, **_vocabularies(model)) == model
    assert sorted(os.listdir(tmp_path / "copy")) == sorted(os.listdir(model_dir))


def _vocabularies(model):
    return {name: getattr(model, name) for name in ("tokens", "characters", "readings")}


@pytest.fixture
def data_with_bpe(data):
    info, path = data
    content = b"pieces"
    with open(os.path.join(path, "bpe.model"), "wb") as file:
        file.write(content)
    return dataclasses.replace(info, token_type="bpe", bpe_sha256=hashlib.sha256(content).hexdigest()), path


def test_bpe_model_is_copied_into_the_model_directory(data_with_bpe, model_dir):
    info, path = data_with_bpe
    model = small_models.create_or_check(model_dir, make_config(info), path)
    assert pathlib.Path(model_dir, "bpe.model").read_bytes() == b"pieces"
    assert model.config.bpe_sha256 == info.bpe_sha256
    model_directory.check_data(model_dir, model.config, info, path)
    with pytest.raises(errors.UserError, match="sha256 of bpe.model is abc, expected .*--vocabulary_dir="):
        model_directory.check_data(model_dir, model.config, dataclasses.replace(info, bpe_sha256="abc"), path)


def test_a_damaged_or_missing_bpe_model_is_refused(data_with_bpe, model_dir):
    info, path = data_with_bpe
    small_models.create_or_check(model_dir, make_config(info), path)
    pieces = pathlib.Path(model_dir, "bpe.model")
    pieces.write_bytes(b"other")
    with pytest.raises(errors.UserError, match="bpe.model: sha256 is .* expected .* as in config.json"):
        model_directory.open_model_directory(model_dir)
    pieces.unlink()
    with pytest.raises(errors.UserError, match="bpe.model: cannot be read .No such file.*; restore"):
        model_directory.open_model_directory(model_dir)
