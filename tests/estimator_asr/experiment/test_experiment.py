from __future__ import annotations

import dataclasses
import json
import os

import pytest
import small_records

from estimator_asr.experiment import config, experiment, training_config
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend


def make_config(**changes):
    values = dict(
        model="acoustic",
        acoustic=config.AcousticConfig(),
        language=config.LanguageConfig(),
        optimizer=training_config.OptimizerConfig(decay_boundary_epochs=(2, 4), decay_factors=(1, 0.5, 0.1)),
        input=config.InputConfig(),
        train=training_config.TrainConfig(train_epochs=2.5),
        frontend=frontend.FrontendConfig(),
        token_type="syllable",
        tokens_sha256="a",
        characters_sha256="b",
        readings_sha256="c",
    )
    return experiment.ExperimentConfig(**{**values, **changes})


@pytest.mark.parametrize("changes", [{}, {"frontend": None}])
def test_config_json_holds_everything(tmp_path, changes):
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
    assert (made.model, made.token_type, made.tokens_sha256) == (
        model,
        "syllable",
        small_records.TOKENS.sha256,
    )
    assert made.frontend == (info.frontend if model == "acoustic" else None)
    assert made.optimizer == training_config.OptimizerConfig()


def test_load_refuses_a_directory_that_is_not_a_model_directory(tmp_path):
    with pytest.raises(
        errors.UserError, match="config.json is missing, so this is not a model directory; make one"
    ):
        experiment.ExperimentConfig.load(str(tmp_path))
    for text in ('{"model":', '{"model":' * 100_000):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        with pytest.raises(errors.UserError, match="config.json: cannot be read .*; restore it from a c"):
            experiment.ExperimentConfig.load(str(tmp_path))
    (tmp_path / "config.json").write_text('{"format_version": 99}', encoding="utf-8")
    with pytest.raises(errors.UserError, match="config.json does not have format version 2; train a new"):
        experiment.ExperimentConfig.load(str(tmp_path))


def test_load_ignores_settings_of_earlier_versions(tmp_path):
    make_config().save(str(tmp_path))
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    values["train"] |= {"gpu_memory_growth": True, "max_first_step_minutes": 30.0}
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    assert experiment.ExperimentConfig.load(str(tmp_path)) == make_config()


def test_load_names_an_unknown_key(tmp_path):
    make_config().save(str(tmp_path))
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    values["optimizer"]["warmup_steps"] = 4
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(errors.UserError, match="config.json: .*unknown key warmup_steps"):
        experiment.ExperimentConfig.load(str(tmp_path))
