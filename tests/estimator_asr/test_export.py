"""The program estimator_asr.export."""

import json
import logging
import os
import pathlib
import sys

import pytest
import tensorflow as tf
import tiny_models

from estimator_asr import export
from estimator_asr.exporting.saved_model import export_info, recogniser, signatures
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary


@pytest.mark.long
def test_exports_both_models_and_warns_of_tokens_the_language_model_lacks(tiny_export, tmp_path, caplog):
    export_dir = str(tmp_path / "new" / "export")
    with caplog.at_level(logging.INFO, logger="absl"):
        models = tiny_export.acoustic_dir, tiny_export.language_dir
        path = export.export(export.ExportConfig(*models, export_dir=export_dir))
    assert recogniser.find_version(export_dir) == path
    assert "lm lacks 3 of the 5 tokens of" in caplog.text
    assert "reads them as <unk>: ma5, shi4, tian1. Where such a token is spoken, the tran" in caplog.text
    assert f"acoustic model: {os.path.join(tiny_export.acoustic_dir, 'model.ckpt-7')}" in caplog.text


@pytest.mark.long
def test_exports_the_acoustic_model_alone(tiny_export, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    path = export.export(export.ExportConfig(tiny_export.acoustic_dir, None, export_dir=str(tmp_path)))
    assert "export: 100%" in capsys.readouterr().err  # the progress bar
    waveform = tiny_export.utterances["u3"][-1]
    batch = {"waveform": waveform[None], "num_samples": [len(waveform)]}
    result = recogniser.load(path, "waveform").run(batch)
    assert result["transcript"] == result["pinyin"] != [""]


@pytest.mark.long
def test_greedy_decoding_on_request_in_both_models(tiny_export, tmp_path):
    models = (tiny_export.acoustic_dir, tiny_export.language_dir)
    transcripts = {}
    for decoding in (None, "greedy"):
        export_dir = str(tmp_path / str(decoding))
        path = export.export(export.ExportConfig(*models, export_dir=export_dir, decoding=decoding))
        info = export_info.load(path)
        assert {each.decode["decoding"] for each in (info.acoustic, info.language)} == {decoding or "beam"}
        waveform = tiny_export.utterances["u3"][-1]
        model = recogniser.load(path, "waveform")
        transcripts[decoding] = model.run({"waveform": waveform[None], "num_samples": [len(waveform)]})
    assert len(transcripts["greedy"]["n_best"][0]) == 1 < len(transcripts[None]["n_best"][0])


def test_language_model_of_other_tokens_is_refused(tiny_export, tmp_path):
    letters = vocabulary.Vocabulary(["<unk>", "a", "b"])
    language = tiny_models.make_language_model(str(tmp_path / "letters"), letters)
    config = export.ExportConfig(tiny_export.acoustic_dir, language.path, export_dir=str(tmp_path / "export"))
    message = r"letters has none of the 5 tokens of --acoustic_model_dir=\S+am \(a, b instead of hao3, .*\)"
    with pytest.raises(errors.UserError, match=message):
        export.export(config)
    assert not os.path.exists(tmp_path / "export")


@pytest.mark.long
def test_language_model_of_syllables_after_initials_and_finals(tiny_export, tmp_path, caplog):
    tokens = vocabulary.Vocabulary(["<unk>", "h", "ao3"])
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), tokens, token_type="initial_final")
    config = export.ExportConfig(acoustic.path, tiny_export.language_dir, export_dir=str(tmp_path / "export"))
    assert export_info.load(export.export(config)).token_type == "initial_final"
    assert "lacks" not in caplog.text


@pytest.mark.parametrize(
    ("acoustic", "language", "message"),
    [
        ("language_dir", None, "lm contains the language model instead of the acoustic .* --acoustic_model_"),
        ("acoustic_dir", "acoustic_dir", "am contains the acoustic model instead of the language model; "),
        ("data_dir", None, "config.json is missing, so this is not a model directory"),
    ],
)
def test_wrong_model_directory_is_refused(tiny_export, tmp_path, acoustic, language, message):
    paths = [name and getattr(tiny_export, name) for name in (acoustic, language)]
    with pytest.raises(errors.UserError, match=message):
        export.export(export.ExportConfig(*paths, export_dir=str(tmp_path / "export")))
    assert not os.path.exists(tmp_path / "export")


def make_certified(tiny_export, tmp_path, **flags) -> export.ExportConfig:
    flags = {"data_dir": (tiny_export.data_dir,), "split": "test", **flags}
    models = (tiny_export.acoustic_dir, tiny_export.language_dir)
    return export.ExportConfig(*models, export_dir=str(tmp_path / "export"), **flags)


@pytest.mark.long
def test_certifies_utterances_of_the_data(tiny_export, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        path = export.export(make_certified(tiny_export, tmp_path))
    info = export_info.load(path)
    parity = info.parity
    assert (parity["num_utterances"], parity["num_recordings"]) == (8, 0)  # the data has no recordings
    assert parity["data"] == f"{tiny_export.data_dir}, test"
    assert parity["largest_difference"] < 1e-4
    assert "The SavedModel agrees with the trained models on 8 utterances (0 as WAV files)" in caplog.text
    card = pathlib.Path(path, "assets.extra", "model_card.md").read_text()
    assert "agrees with the trained models on 8 utterances" in card and "| data | test |" in card
    names = {"model_card.md", "client.py", "batching_parameters.txt"}
    assert {f"assets.extra/{name}" for name in names} <= set(info.files)


@pytest.mark.long
def test_a_graph_that_differs_from_the_models_is_not_published(tiny_export, tmp_path, monkeypatch):
    clear = signatures.item_checks.clear

    def clear_wrongly(outputs, status):
        outputs = clear(outputs, status)
        if "transcript" in outputs:  # align and log_probs have none
            outputs["transcript"] = tf.strings.join([outputs["transcript"], "错"])
        return outputs

    monkeypatch.setattr(signatures.item_checks, "clear", clear_wrongly)
    message = r"^export: utterance u\d in features, batch of 1: transcript is '.*错'"
    with pytest.raises(errors.UserError, match=message):
        export.export(make_certified(tiny_export, tmp_path))
    assert os.listdir(tmp_path / "export") == []


def make_with_report(tiny_export, tmp_path, checkpoint) -> export.ExportConfig:
    """Writes a report on a checkpoint; returns the settings of an export with this report, without data."""
    rate = {"rate": 0.105, "errors": 145, "confidence_interval": None}
    report = {"data": "/c/DATA", "split": "test", "num_utterances": 9, "token_error_rate": rate}
    (tmp_path / "metrics.json").write_text(json.dumps({**report, "checkpoint": checkpoint}))
    flags = {"data_dir": (), "split": "dev", "report_dir": (str(tmp_path),), "licence": "MIT"}
    return make_certified(tiny_export, tmp_path, **flags)


@pytest.mark.long
def test_reports_and_licence_are_in_the_card(tiny_export, tmp_path):
    checkpoint = os.path.join(tiny_export.language_dir, "model.ckpt-7")
    config = make_with_report(tiny_export, tmp_path, checkpoint)
    card = pathlib.Path(export.export(config), "assets.extra", "model_card.md").read_text()
    assert "| DATA | test | token error rate | 10.50 % | 145 | 9 |" in card and card.endswith("MIT\n")
    assert "Not compared with the trained models, because --data_dir was not set." in card


def test_data_and_reports_that_do_not_fit_are_refused_first(tiny_export, tmp_path):
    with pytest.raises(errors.UserError, match="dev"):
        export.export(make_certified(tiny_export, tmp_path, split="dev"))
    with pytest.raises(errors.UserError, match="export: --report_dir="):
        export.export(make_certified(tiny_export, tmp_path, report_dir=(str(tmp_path),)))
    assert not os.path.exists(tmp_path / "export")


@pytest.mark.long
def test_a_report_of_another_model_is_refused(tiny_export, tmp_path):
    config = make_with_report(tiny_export, tmp_path, "/x/am/model.ckpt-7")
    with pytest.raises(errors.UserError, match="is a report on /x/am/model.ckpt-7 instead of "):
        export.export(config)
    assert os.listdir(tmp_path / "export") == []


@pytest.mark.parametrize(("name", "value"), [("split", "test"), ("parity_utterances", 3)])
def test_flags_of_the_comparison_need_data(name, value):
    message = f"^export: --{name}={value} has no effect, because no utterances are compared without"
    with pytest.raises(errors.UserError, match=message):
        export.ExportConfig("AM", None, export_dir="EXPORT", **{name: value})


def test_missing_flags_and_a_file_in_place_of_the_export_directory_are_named(tmp_path):
    with pytest.raises(errors.UserError, match="--acoustic_model_dir is missing"):
        export.ExportConfig(export_dir=str(tmp_path))
    with pytest.raises(errors.UserError, match="--export_dir is missing"):
        export.ExportConfig(acoustic_model_dir="AM")
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError, match=r"--export_dir=\S+file is a file; pass a directory"):
        export.ExportConfig("AM", None, export_dir=str(tmp_path / "file"))
