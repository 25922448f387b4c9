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


@pytest.fixture
def trained(data, model_dir):
    """Adds an acoustic model with a checkpoint in model_dir; returns the data's dataset_info and path."""
    return train(data, model_dir)


def train(data, model_dir, **settings):
    info, path = data
    small_models.create_or_check(model_dir, make_config(info, **settings), path)
    pathlib.Path(model_dir, "model.ckpt-1.index").touch()
    return data


@pytest.mark.parametrize("model, num_classes", [("acoustic", 6), ("language", 6)])
def test_a_new_directory_stands_alone(tmp_path, data, model_dir, model, num_classes):
    info, path = data
    made = small_models.create_or_check(model_dir, make_config(info, model), path)
    os.rename(path, tmp_path / "elsewhere")
    opened = model_directory.open_model_directory(model_dir)
    assert opened.config == made.config == make_config(info, model)
    assert opened.tokens.tokens == small_records.TOKENS.tokens and opened.num_classes == num_classes
    assert (opened.characters is None) == (opened.readings is None) == (model == "acoustic")


@pytest.fixture
def logged(monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "info", lambda text, *values: lines.append(text % values))
    return lines


# Changes of all settings that affect only training, and how they are logged.
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
    info, path = train(data, model_dir, model=kind)
    section, said = OTHER_TRAINING[kind]
    masks = config.InputConfig(spec_augment=False, num_buckets=8)
    rate = training_config.OptimizerConfig(learning_rate=0.0005)
    changed = make_config(info, kind, **{kind: section}, input=masks, optimizer=rate)
    model_directory.check(model_dir, changed, path)
    assert logged == []  # other checks may still refuse the run
    for _ in range(2):
        assert small_models.create_or_check(model_dir, changed, path).config == changed
        assert experiment.ExperimentConfig.load(model_dir) == changed
    assert logged == [  # the second run changes nothing, so nothing is logged
        f"{model_dir}: settings changed since the last run: {said}, --learning_rate 0.001 -> 0.0005, "
        "--num_buckets 12 -> 8, --spec_augment True -> False"
    ]


def test_settings_without_a_flag_keep_their_values_in_the_directory(data, model_dir, logged):
    old = {
        "acoustic": config.AcousticConfig(conv_kernel_size=31, label_smoothing=0.0),
        "optimizer": training_config.OptimizerConfig(adam_beta2=0.999, decay_epochs=2.0),
        "input": config.InputConfig(time_masks=1),
    }
    info, path = train(data, model_dir, **old)
    for continue_in in (model_directory.open_new, small_models.create_or_check):  # worker, chief
        assert continue_in(model_dir, make_config(info), path).config == make_config(info, **old)
    assert logged == []


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            {"acoustic": config.AcousticConfig(encoder_units=128, acoustic_dropout=0.2)},
            "acoustic is encoder_units=128 in this run, but the directory was trained with "
            "encoder_units=256; use the same flags and data, or another --model_dir$",
        ),
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
def test_another_model_is_refused_with_both_values(trained, model_dir, logged, changes, said):
    info, path = trained
    saved = experiment.ExperimentConfig.load(model_dir)
    with pytest.raises(errors.UserError, match=f"^{model_dir}: {said}"):
        small_models.create_or_check(model_dir, make_config(info, **changes), path)
    assert experiment.ExperimentConfig.load(model_dir) == saved and logged == []


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


def test_an_acoustic_model_does_not_depend_on_the_language_architecture(trained, model_dir):
    info, path = trained
    other = make_config(info, language=config.LanguageConfig(language_layers=1))
    assert small_models.create_or_check(model_dir, other, path).config.language.language_layers == 1


def test_data_of_another_vocabulary_is_refused_with_both_directories(tmp_path, data, model_dir):
    info, path = data
    model_config = make_config(info)
    model_directory.check_data(model_dir, model_config, info, path)
    other = small_records.make_data(str(tmp_path / "other"), tokens=OTHER_TOKENS)
    hashes = f"{OTHER_TOKENS.sha256[:12]}, expected {info.tokens_sha256[:12]}"
    said = f"other: sha256 of tokens.txt is {hashes} as in {model_dir}; build "
    with pytest.raises(errors.UserError, match=said):
        model_directory.check_data(model_dir, model_config, other, str(tmp_path / "other"))


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
    with pytest.raises(errors.UserError, match=said):
        model_directory.check_data(model_dir, make_config(info), dataclasses.replace(info, **changes), path)


def test_a_language_model_reads_data_with_and_without_audio_but_no_other_characters(data, model_dir):
    info, path = data
    for read in (info, dataclasses.replace(info, frontend=None)):
        model_directory.check_data(model_dir, make_config(info, "language"), read, path)
    other = dataclasses.replace(info, characters_sha256="abc")
    with pytest.raises(errors.UserError, match="sha256 of characters.txt is abc, expected"):
        model_directory.check_data(model_dir, make_config(info, "language"), other, path)


def test_a_changed_vocabulary_file_is_refused(trained, model_dir):
    OTHER_TOKENS.save(os.path.join(model_dir, "tokens.txt"))
    said = "tokens.txt: sha256 is .* expected .* as in config.json; restore"
    with pytest.raises(errors.UserError, match=said):
        model_directory.open_model_directory(model_dir)


def test_a_missing_directory_is_refused(model_dir):
    with pytest.raises(errors.UserError, match="model directory does not exist; train a model"):
        model_directory.open_model_directory(model_dir)


def test_a_description_is_a_model_directory_without_weights(tmp_path, data, model_dir):
    info, path = data
    model = small_models.create_or_check(model_dir, make_config(info, "language"), path)
    model_directory.copy_description(model, str(tmp_path / "copy"))
    copied = model_directory.open_model_directory(str(tmp_path / "copy"))
    vocabularies = {name: getattr(model, name) for name in ("tokens", "characters", "readings")}
    assert dataclasses.replace(copied, path=model.path, **vocabularies) == model
    assert sorted(os.listdir(tmp_path / "copy")) == sorted(os.listdir(model_dir))


@pytest.fixture
def data_with_bpe(data):
    info, path = data
    pathlib.Path(path, "bpe.model").write_bytes(b"pieces")
    return dataclasses.replace(info, token_type="bpe", bpe_sha256=hashlib.sha256(b"pieces").hexdigest()), path


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
