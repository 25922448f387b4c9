import dataclasses
import json
import os

import pytest
import small_records

from estimator_asr.experiment import experiment, training_config
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend


def make_config(**changes):
    values = dict(
        model="acoustic",
        optimizer=training_config.OptimizerConfig(decay_boundary_epochs=(2, 4), decay_factors=(1, 0.5, 0.1)),
        train=training_config.TrainConfig(train_epochs=2.5),
        frontend=frontend.FrontendConfig(),
        token_type="syllable",
        tokens_sha256="a",
        characters_sha256="b",
        readings_sha256="c",
    )
    return experiment.ExperimentConfig(**{**values, **changes})


@pytest.mark.parametrize("changes", [{}, {"frontend": None}])
def test_a_saved_config_is_loaded_unchanged(tmp_path, changes):
    saved = make_config(**changes)
    saved.save(str(tmp_path))
    assert experiment.ExperimentConfig.load(str(tmp_path)) == saved
    assert os.listdir(tmp_path) == ["config.json"]


def test_config_json_is_sorted_and_holds_every_hyperparameter(tmp_path):
    make_config().save(str(tmp_path))
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert list(values) == sorted(values)
    for name in ("acoustic", "language", "optimizer", "input", "train"):
        section = getattr(make_config(), name)
        assert set(values[name]) == {field.name for field in dataclasses.fields(section)}


def test_the_logged_line_is_one_line():
    line = make_config().to_json()
    assert "\n" not in line and json.loads(line)["train"]["train_epochs"] == 2.5


@pytest.mark.parametrize("model", ["acoustic", "language"])
def test_for_data_combines_dataset_info_with_default_settings(tmp_path, model):
    info = small_records.make_data(str(tmp_path / "data"))
    made = experiment.ExperimentConfig.for_data(info, train=training_config.TrainConfig(model=model))
    facts = (made.model, made.token_type, made.tokens_sha256)
    assert facts == (model, "syllable", small_records.TOKENS.sha256)
    assert made.frontend == (info.frontend if model == "acoustic" else None)
    assert made.optimizer == training_config.OptimizerConfig()


def test_load_refuses_a_directory_that_is_not_a_model_directory(tmp_path):
    said = "config.json is missing, so this is not a model directory; make one"
    with pytest.raises(errors.UserError, match=said):
        experiment.ExperimentConfig.load(str(tmp_path))


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"model":', "config.json: cannot be read .*; restore it from a copy"),
        ('{"model":' * 100_000, "config.json: cannot be read .*; restore it from a copy"),
        ('{"format_version": 99}', "config.json does not have format version 2; train a new"),
    ],
)
def test_load_refuses_invalid_files_and_other_versions(tmp_path, text, said):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(errors.UserError, match=said):
        experiment.ExperimentConfig.load(str(tmp_path))


def load_with(tmp_path, section, **values):
    """Returns the loaded config after keys were added to a section of config.json."""
    saved = json.loads(make_config().to_json())
    saved[section] |= values
    (tmp_path / "config.json").write_text(json.dumps(saved), encoding="utf-8")
    return experiment.ExperimentConfig.load(str(tmp_path))


def test_load_ignores_settings_of_earlier_versions(tmp_path):
    loaded = load_with(tmp_path, "train", gpu_memory_growth=True, max_first_step_minutes=30.0)
    assert loaded == make_config()


def test_load_names_an_unknown_key(tmp_path):
    with pytest.raises(errors.UserError, match="config.json: .*unknown key warmup_steps"):
        load_with(tmp_path, "optimizer", warmup_steps=4)
