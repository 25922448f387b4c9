"""A new encoder, decoder or loss is one file and one entry: nothing else knows its name."""

from __future__ import annotations

import json

import new_models
import pytest
import small_records
import toy_decoder
import toy_encoder
import toy_loss

from estimator_asr import config, estimator_api, experiment, model_directory, train, training_config
from estimator_asr.inputs import input_fn, splits
from estimator_asr.models import acoustic
from estimator_asr.tasks import registry
from estimator_asr.training import model_fn
from tfrecord_builder import errors

SMALL = {"encoder": "toy", "encoder_units": 16, "attention_heads": 2, "decoder_layers": 0}


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    monkeypatch.setitem(acoustic.ENCODERS, "toy", toy_encoder.ENCODER)


def make_model(path, **acoustic):
    info = small_records.make_data(str(path / "data"))
    sections = {"acoustic": config.AcousticConfig(**{**SMALL, **acoustic})}
    sections["train"] = training_config.TrainConfig()
    sections["watch"] = training_config.WatchConfig(try_worst_batch=False)  # the plan knows no shapes
    settings = train.build_config(sections, [info], [str(path / "data")])
    return model_directory.create_or_check(str(path / "model"), settings, str(path / "data")), info


def run(path, model, info):
    """Trains two steps; returns the metrics on dev."""
    build = model_fn.build_model_fn(model, new_models.plan())

    def read(split, training):
        source = splits.read_split([info], [str(path / "data")], split, model.config.spec)
        return input_fn.build_input_fn(source, model.config.input, training=training)

    estimator = estimator_api.Estimator(build, model.path, estimator_api.RunConfig(model.path))
    estimator.train(read("train", True), max_steps=2)
    return estimator.evaluate(read("dev", False))


def test_a_toy_encoder_that_subsamples_by_8_trains_on_the_data_as_it_is(tmp_path):
    model, info = make_model(tmp_path)
    assert run(tmp_path, model, info)["avg-loss"] > 0
    saved = experiment.ExperimentConfig.load(model.path)
    assert (saved.acoustic.encoder, saved.subsampling) == ("toy", 8)


def test_a_toy_decoder_makes_the_error_rate(tmp_path, monkeypatch):
    monkeypatch.setitem(acoustic.DECODERS, "toy", toy_decoder.decode)
    model, info = make_model(tmp_path, decoding="toy")
    # One token for each of the references of one, two and three tokens.
    assert run(tmp_path, model, info)["length-ratio"] == pytest.approx(3 / 6)


def test_a_toy_loss_is_minimised(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.TASKS, "acoustic", lambda: toy_loss.TripleCtc)
    metrics = run(tmp_path, *make_model(tmp_path))
    assert metrics["avg-loss"] == pytest.approx(3 * metrics["ctc-loss"], rel=1e-5)


@pytest.mark.parametrize(
    "flag, choices", [("encoder", "conformer, transformer, cnn, whisper, toy"), ("decoding", "greedy")]
)
def test_an_unknown_name_lists_the_choices(tmp_path, flag, choices):
    with pytest.raises(errors.UserError, match=f"train: --{flag} is lstm, expected one of {choices}"):
        make_model(tmp_path, **{flag: "lstm"})
    assert not (tmp_path / "model").exists()


def test_a_model_of_before_subsampling_was_saved_opens_with_4(tmp_path):
    model, _ = make_model(tmp_path, encoder="cnn")
    path = tmp_path / "model" / "config.json"
    values = json.loads(path.read_text("utf-8"))
    del values["subsampling"], values["acoustic"]["decoding"]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert model_directory.open_model_directory(model.path).config == model.config
