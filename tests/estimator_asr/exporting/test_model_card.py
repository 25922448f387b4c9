"""The model card lists the data and the reports, which must evaluate the exported models."""

import dataclasses
import json
import os

import pytest
import tiny_models

from estimator_asr.exporting import model_card
from estimator_asr.exporting.saved_model import export_info, saved_model_writer, trained_model
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info

RATE = {"rate": 0.105, "errors": 145, "confidence_interval": [0.07, 0.146]}
METRICS = {"data": "/c/DATA,/c/MORE/", "split": "test", "num_utterances": 1120, "character_error_rate": RATE}


def write_card(tiny_export, tmp_path, **facts) -> str:
    (tmp_path / "assets.extra").mkdir()
    data = {"/c/data": dataset_info.DatasetInfo.load(tiny_export.data_dir)}
    facts = {"data": data, "metrics": [METRICS], "licence": "CC-BY-4.0", "parity": "Recognises 4.", **facts}
    model_card.write(str(tmp_path), export_info.load(tiny_export.version_dir), **facts)
    return (tmp_path / "assets.extra" / "model_card.md").read_text(encoding="utf-8")


def test_card_lists_data_and_reports(tiny_export, tmp_path):
    card = write_card(tiny_export, tmp_path)
    assert (
        "Converts speech at 16000 Hz to hanzi, using an acoustic model trained for 7 steps and a language "
        "model trained for 7 steps.\n" in card
    )
    assert "decoding beam, beam_width 10" in card
    assert "Recognises 4.\n" in card
    # Eight utterances, of 0.25 s and more, by three speakers.
    assert "| data | train | 0.00 | 8 | 3 |" in card
    assert (
        "| DATA, MORE | test | character error rate | 10.50 % (95 % interval 7.00 to 14.60 %) | 145 | 1,120 |"
        in card
    )
    assert card.endswith("## Licence\n\nCC-BY-4.0\n")


def test_card_of_an_export_with_a_punctuation_model(tiny_export, tmp_path, monkeypatch):
    info = export_info.load(tiny_export.version_dir)
    punctuation = export_info.ModelInfo(1200, decode={"pause_weight": "2.0", "pause_offset": "0.15"})
    info = dataclasses.replace(info, punctuation=punctuation)
    monkeypatch.setattr(export_info, "load", lambda path: info)
    mark_rate = {"f1": 0.62, "confidence_interval": [0.6, 0.65]}
    marks = {"num_utterances": 50, "commas_stops_questions": mark_rate}
    recognised = {**METRICS, "marks": marks, "written_form": {**RATE, "rate": 0.2}}
    texts = {"data": "/c/TEXT", "split": "dev", **marks}
    card = write_card(tiny_export, tmp_path, metrics=[recognised, texts])
    assert (
        "using an acoustic model trained for 7 steps, a language model trained for 7 steps and a "
        "punctuation model trained for 1,200 steps.\n" in card
    )
    assert "\nWeight of pauses in the choice of marks: pause_weight 2.0, pause_offset 0.15.\n" in card
    interval = "(95 % interval 60.00 to 65.00 %)"
    assert "| test | written form | 20.00 % (95 % interval 7.00 to 14.60 %) | 145 | 50 |" in card
    assert f"| DATA, MORE | test | F1 of commas stops questions | 62.00 % {interval} |  | 50 |" in card
    assert f"| TEXT | dev | F1 of commas stops questions | 62.00 % {interval} |  | 50 |" in card
    (tmp_path / "metrics.json").write_text(json.dumps(texts))
    assert model_card.read_metrics(str(tmp_path)) == texts


def test_a_report_of_an_export_with_another_weight_of_pauses_is_refused(tiny_export, monkeypatch):
    info = export_info.load(tiny_export.version_dir)
    infos = [
        dataclasses.replace(info, punctuation=export_info.ModelInfo(7, decode={"pause_weight": weight}))
        for weight in ("1.0", "2.0")
    ]
    loaded = iter(infos)
    monkeypatch.setattr(export_info, "load", lambda path: next(loaded))
    with pytest.raises(errors.UserError, match="REPORT is a report on EXPORT/1 instead of"):
        model_card.check_reports({"REPORT": {"model": "EXPORT/1"}}, "EXPORT/2", ["AM/model.ckpt-7"])


def test_card_says_what_is_not_stated(tiny_export, tmp_path):
    card = write_card(tiny_export, tmp_path, data={}, metrics=[], licence="")
    assert card.count("Not stated") == 3


def test_reads_reports(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps(METRICS))
    assert model_card.read_metrics(str(tmp_path)) == METRICS


@pytest.mark.parametrize("content", ["{", "[]", "{}", json.dumps({**METRICS, "token_error_rate": 3}), None])
def test_invalid_reports_are_refused(tmp_path, content):
    if content is not None:  # None: the file is missing
        (tmp_path / "metrics.json").write_text(content)
    problem = r"metrics.json cannot be read \(\w+: .*\); pass the --output_dir of an evaluation$"
    with pytest.raises(errors.UserError, match=rf"^export: --report_dir=\S+: {problem}"):
        model_card.read_metrics(str(tmp_path))


@pytest.fixture
def check(tiny_export, trained_models):
    """A function that checks the contents of a report's metrics.json against tiny_export."""
    checkpoints = [each.checkpoint for each in trained_models]
    return lambda values: model_card.check_reports({"REPORT": values}, tiny_export.version_dir, checkpoints)


@pytest.mark.parametrize("name", ["acoustic_dir", "language_dir"])
def test_reports_of_the_exported_checkpoints_are_accepted(tiny_export, check, name, monkeypatch):
    directory = getattr(tiny_export, name)
    monkeypatch.chdir(directory)
    for checkpoint in (os.path.join(directory, "model.ckpt-7"), "model.ckpt-7"):
        check({"model": directory, "checkpoint": checkpoint})


@pytest.mark.long
def test_a_report_of_another_export_of_the_same_models_is_accepted(check, trained_models, tmp_path):
    check({"model": saved_model_writer.write(*trained_models, str(tmp_path))})


@pytest.mark.long
def test_a_report_of_an_export_with_other_weights_is_refused(check, trained_models, tmp_path):
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), seed=5)
    trained = trained_model.open_trained_model(acoustic.path)
    path = saved_model_writer.write(trained, trained_models[1], str(tmp_path / "export"))
    checkpoints = [each.checkpoint for each in trained_models]
    with pytest.raises(errors.UserError) as refused:
        check({"model": path})
    expected = f"instead of {' or '.join(checkpoints)} (or an export of the same models)"
    assert str(refused.value) == (
        f"export: --report_dir=REPORT is a report on {path} {expected}; evaluate the exported "
        "models, and pass the new report"
    )


@pytest.mark.parametrize(
    "values", [{}, {"model": "gone"}, {"model": "AM", "checkpoint": "AM/model.ckpt-8"}, {"model": None}]
)
def test_reports_of_other_models_are_refused(check, values):
    message = r"^export: --report_dir=REPORT is a report on .* instead of .* or .* \(or an export"
    with pytest.raises(errors.UserError, match=message):
        check(values)
