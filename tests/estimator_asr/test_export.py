"""python -m estimator_asr.export."""

from __future__ import annotations

import logging
import os
import sys

import pytest
import tiny_models

from estimator_asr import export
from estimator_asr.serving import export_info, recogniser
from tfrecord_builder import errors, vocabulary


def test_exports_both_models_and_warns_of_tokens_the_language_model_lacks(tiny_export, tmp_path, caplog):
    export_dir = str(tmp_path / "new" / "export")
    with caplog.at_level(logging.INFO, logger="absl"):
        path = export.export(
            export.ExportConfig(tiny_export.acoustic_dir, tiny_export.language_dir, export_dir)
        )
    assert recogniser.find_version(export_dir) == path
    assert "lm lacks 3 of the 5 tokens of" in caplog.text
    assert "reads them as <unk>: ma5, shi4, tian1" in caplog.text
    assert f"acoustic model: {os.path.join(tiny_export.acoustic_dir, 'model.ckpt-7')}" in caplog.text


def test_exports_the_acoustic_model_alone(tiny_export, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    path = export.export(export.ExportConfig(tiny_export.acoustic_dir, None, str(tmp_path)))
    assert "export: 100%" in capsys.readouterr().err  # the progress bar of a terminal
    waveform = tiny_export.utterances["u3"][-1]
    batch = {"waveform": waveform[None], "num_samples": [len(waveform)]}
    result = recogniser.load(path, "waveform").run(batch)
    assert result["transcript"] == result["pinyin"] != [""]


def test_greedy_decoding_on_request_in_both_models(tiny_export, tmp_path):
    models = (tiny_export.acoustic_dir, tiny_export.language_dir)
    transcripts = {}
    for decoding in (None, "greedy"):
        path = export.export(export.ExportConfig(*models, str(tmp_path / str(decoding)), decoding=decoding))
        info = export_info.load(path)
        assert {each.decode["decoding"] for each in (info.acoustic, info.language)} == {decoding or "beam"}
        waveform = tiny_export.utterances["u3"][-1]
        model = recogniser.load(path, "waveform")
        transcripts[decoding] = model.run({"waveform": waveform[None], "num_samples": [len(waveform)]})
    assert len(transcripts["greedy"]["n_best"][0]) == 1 < len(transcripts[None]["n_best"][0])


def test_language_model_of_other_tokens_is_refused(tiny_export, tmp_path):
    letters = vocabulary.Vocabulary(["<unk>", "a", "b"])
    language = tiny_models.make_language_model(str(tmp_path / "letters"), letters)
    config = export.ExportConfig(tiny_export.acoustic_dir, language.path, str(tmp_path / "export"))
    with pytest.raises(
        errors.UserError,
        match=r"letters knows none of the 5 tokens of --acoustic_model_dir=\S+am \(hao3, .* against a, b\)",
    ):
        export.export(config)
    assert not os.path.exists(tmp_path / "export")


def test_language_model_of_syllables_after_initials_and_finals(tiny_export, tmp_path, caplog):
    tokens = vocabulary.Vocabulary(["<unk>", "h", "ao3"])
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), tokens, token_type="initial_final")
    config = export.ExportConfig(acoustic.path, tiny_export.language_dir, str(tmp_path / "export"))
    assert export_info.load(export.export(config)).token_type == "initial_final"
    assert "lacks" not in caplog.text


@pytest.mark.parametrize(
    ("acoustic", "language", "message"),
    [
        (
            "language_dir",
            None,
            "lm: contains the language model, expected the acoustic model; give another --acoustic_model_dir",
        ),
        ("acoustic_dir", "acoustic_dir", "am: contains the acoustic model, expected the language model"),
        ("data_dir", None, "config.json is missing, expected a model directory"),
    ],
)
def test_wrong_model_directory_is_refused(tiny_export, tmp_path, acoustic, language, message):
    paths = [name and getattr(tiny_export, name) for name in (acoustic, language)]
    with pytest.raises(errors.UserError, match=message):
        export.export(export.ExportConfig(*paths, str(tmp_path / "export")))
    assert not os.path.exists(tmp_path / "export")


def test_missing_flags_and_files_in_the_way_are_named(tmp_path):
    with pytest.raises(errors.UserError, match="--acoustic_model_dir is missing"):
        export.ExportConfig(export_dir=str(tmp_path))
    with pytest.raises(errors.UserError, match="--export_dir is missing"):
        export.ExportConfig(acoustic_model_dir="AM")
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError, match=r"--export_dir=\S+file is a file; give a directory"):
        export.ExportConfig("AM", None, str(tmp_path / "file"))
