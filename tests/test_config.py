from __future__ import annotations

import dataclasses
import json
import os

import pytest

from estimator_asr import config
from tfrecord_builder import errors, frontend


def make_config(**changes):
    values = dict(
        model="acoustic",
        acoustic=config.AcousticConfig(),
        language=config.LanguageConfig(),
        optimizer=config.OptimizerConfig(decay_boundary_epochs=(2, 4), decay_factors=(1, 0.5, 0.1)),
        input=config.InputConfig(),
        train=config.TrainConfig(train_epochs=2.5),
        frontend=frontend.FrontendConfig(),
        unit="syllable",
        tokens_sha256="a",
        characters_sha256="b",
        readings_sha256="c",
        feature_mean=(1.0, 2.0),
        feature_stddev=(3.0, 4.0),
    )
    return config.ExperimentConfig(**{**values, **changes})


@pytest.mark.parametrize("changes", [{}, {"frontend": None, "feature_mean": (), "feature_stddev": ()}])
def test_config_json_holds_everything(tmp_path, changes):
    experiment = make_config(**changes)
    experiment.save(str(tmp_path))
    assert config.ExperimentConfig.load(str(tmp_path)) == experiment
    assert os.listdir(tmp_path) == ["config.json"]


def test_config_json_is_sorted_and_holds_every_hyperparameter(tmp_path):
    make_config().save(str(tmp_path))
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert list(values) == sorted(values)
    for name in ("acoustic", "language", "optimizer", "input", "train"):
        section = getattr(make_config(), name)
        assert set(values[name]) == {field.name for field in dataclasses.fields(section)}


def test_the_logged_line_leaves_out_the_statistics():
    line = make_config().settings_to_json()
    assert "\n" not in line and json.loads(line)["feature_mean"] == []


def test_load_refuses_what_is_no_model_directory(tmp_path):
    with pytest.raises(
        errors.UserError, match="config.json is missing, expected a model directory; make one"
    ):
        config.ExperimentConfig.load(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model":', encoding="utf-8")
    with pytest.raises(errors.UserError, match="config.json: is not whole JSON .*; restore it from a copy"):
        config.ExperimentConfig.load(str(tmp_path))
    (tmp_path / "config.json").write_text('{"format_version": 99}', encoding="utf-8")
    with pytest.raises(errors.UserError, match="config.json: is not of format version 1; train a new model"):
        config.ExperimentConfig.load(str(tmp_path))


def test_load_names_an_unknown_key(tmp_path):
    make_config().save(str(tmp_path))
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    values["optimizer"]["warmup_steps"] = 4
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(errors.UserError, match="config.json: .*unknown key warmup_steps"):
        config.ExperimentConfig.load(str(tmp_path))


@pytest.mark.parametrize(
    "build, said",
    [
        (
            lambda: config.TrainConfig(train_steps=10, train_epochs=2.0),
            "--train_steps=10 and --train_epochs=2 are both given, expected one of them",
        ),
        (
            lambda: config.OptimizerConfig(decay_boundary_epochs=(1.0,), decay_factors=(1.0,)),
            "--decay_factors has 1 values and --decay_boundary_epochs 1, expected one factor more",
        ),
        (
            lambda: config.OptimizerConfig(decay_boundary_epochs=(2.0, 1.0), decay_factors=(1.0, 0.5, 0.1)),
            "--decay_boundary_epochs is .* expected rising numbers",
        ),
        (
            lambda: config.OptimizerConfig(warmup_epochs=-1.0),
            "flag --warmup_epochs=-1.0: expected at least 0",
        ),
        (lambda: config.InputConfig(batch_frames=0), "flag --batch_frames=0: expected more than 0"),
        (lambda: config.TrainConfig(model="both"), "flag --model=both: expected one of acoustic, language"),
    ],
)
def test_what_cannot_be_is_refused_by_flag(build, said):
    with pytest.raises(errors.UserError, match=said):
        build()
