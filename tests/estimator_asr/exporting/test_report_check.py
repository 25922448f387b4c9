"""Reports for the model card: of a checkpoint, or of an export with the same weights."""

from __future__ import annotations

import os

import pytest
import tiny_models

from estimator_asr.exporting import report_check
from estimator_asr.saved_model import export_info, saved_model_writer, trained_model
from tfrecord_builder import errors


@pytest.fixture(scope="module")
def written(tiny_export):
    models = [
        trained_model.open_trained_model(path)
        for path in (tiny_export.acoustic_dir, tiny_export.language_dir)
    ]
    return saved_model_writer.Written(
        tiny_export.version_dir, export_info.load(tiny_export.version_dir), *models
    )


@pytest.mark.parametrize("name", ["acoustic_dir", "language_dir"])
def test_reports_of_the_checkpoints(tiny_export, written, name, monkeypatch):
    directory = getattr(tiny_export, name)
    monkeypatch.chdir(directory)
    for checkpoint in (os.path.join(directory, "model.ckpt-7"), "model.ckpt-7"):
        report_check.check({"REPORT": {"model": directory, "checkpoint": checkpoint}}, written)


def test_report_of_another_export_of_the_models(written, tmp_path):
    path = saved_model_writer.write(written.acoustic, written.language, str(tmp_path))
    report_check.check({"REPORT": {"model": path}}, written)


def test_report_of_an_export_of_other_weights(written, tmp_path):
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), seed=5)
    path = saved_model_writer.write(
        trained_model.open_trained_model(acoustic.path), written.language, str(tmp_path / "export")
    )
    checkpoints = [written.acoustic.checkpoint, written.language.checkpoint]
    with pytest.raises(errors.UserError) as refused:
        report_check.check({"REPORT": {"model": path}}, written)
    assert str(refused.value) == (
        f"export: --report_dir=REPORT: model is {path}, expected {' or '.join(checkpoints)}, or an export "
        "of the same models; evaluate these, and give the new report"
    )


@pytest.mark.parametrize(
    "values", [{}, {"model": "gone"}, {"model": "AM", "checkpoint": "AM/model.ckpt-8"}, {"model": None}]
)
def test_reports_of_other_models(written, values):
    with pytest.raises(
        errors.UserError, match="^export: --report_dir=REPORT: model is .*, expected .* or .*, or"
    ):
        report_check.check({"REPORT": values}, written)
