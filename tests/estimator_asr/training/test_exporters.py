from __future__ import annotations

import json
import math
import os
import types

import pytest

from estimator_asr import task_spec
from estimator_asr.checkpointing import locks
from estimator_asr.training import exporters


class Writer:
    """Stands for an Estimator: writes version 1, 2, ... with nothing but the figures in it."""

    def __init__(self):
        self.versions = 0

    def export_saved_model(self, export_path, receiver_fn, assets_extra, checkpoint_path):
        self.versions += 1
        folder = os.path.join(export_path, str(self.versions), "assets.extra")
        os.makedirs(folder)
        for name, source in assets_extra.items():
            with open(source, encoding="utf-8") as read, open(os.path.join(folder, name), "w") as written:
                written.write(read.read())


@pytest.fixture
def writer():
    return Writer()


def export(exporter, writer, path, error_rate, step, is_last=False):
    figures = {"token-error-rate": error_rate, "loss": 1.0 - error_rate, "global_step": step}
    exporter.export(writer, str(path), "model.ckpt", figures, is_last)


def test_the_best_has_the_lowest_decoded_error_rate_whatever_the_loss(tmp_path, writer):
    best = exporters.BestExporter(None, "token-error-rate")
    for step, error_rate in enumerate([0.5, 0.3, 0.4, 0.3, 0.2]):
        export(best, writer, tmp_path, error_rate, step)
    assert os.listdir(tmp_path) == ["3"]
    assert exporters.read_evaluation(str(tmp_path))["global_step"] == 4


def test_a_run_that_continues_does_not_replace_a_better_one(tmp_path, writer):
    export(exporters.BestExporter(None, "token-error-rate"), writer, tmp_path, 0.1, 5)
    export(exporters.BestExporter(None, "token-error-rate"), writer, tmp_path, 0.2, 9)
    assert os.listdir(tmp_path) == ["1"]


def test_without_figures_there_is_no_best(tmp_path, writer):
    exporters.BestExporter(None, "token-error-rate").export(writer, str(tmp_path), "", {}, True)
    assert os.listdir(tmp_path) == []


def test_the_final_one_is_written_at_the_end_alone_with_its_figures(tmp_path, writer):
    final = exporters.FinalExporter(None)
    export(final, writer, tmp_path, 0.1, 5)
    assert exporters.read_evaluation(str(tmp_path)) == {} and not os.listdir(tmp_path)
    export(final, writer, tmp_path, 0.2, 9, is_last=True)
    figures = json.loads((tmp_path / "1" / "assets.extra" / "evaluation.json").read_text(encoding="utf-8"))
    assert figures == {"token-error-rate": 0.2, "loss": 0.8, "global_step": 9.0}


def test_one_that_is_being_written_or_has_no_figures_does_not_count(tmp_path):
    (tmp_path / "temp-7").mkdir()
    (tmp_path / "6").mkdir()
    assert exporters.read_evaluation(str(tmp_path)) == {}
    assert exporters.read_evaluation(str(tmp_path / "nowhere")) == {}


def test_the_report_shows_every_figure_once(monkeypatch):
    lines = []
    monkeypatch.setattr(exporters.logging, "info", lambda text, *values: lines.append(text % values))
    result = {"loss": 9.0, "global_step": 12, "token-error-rate": 0.25, "avg-loss": 1.5}
    exporters.Report().export(None, "", "", result, False)
    assert lines == ["dev at step 12: avg-loss 1.5000  token-error-rate 0.2500"]


def test_a_figure_that_is_no_number_is_never_the_best(tmp_path, writer):
    best = exporters.BestExporter(None, "token-error-rate")
    figures = {"token-error-rate": 0.1, "loss": math.nan, "global_step": 1}
    best.export(writer, str(tmp_path), "", figures, False)
    export(best, writer, tmp_path, math.nan, 2)
    assert os.listdir(tmp_path) == []


def test_the_best_one_before_stays_while_it_is_read(tmp_path, writer):
    best = exporters.BestExporter(None, "token-error-rate")
    export(best, writer, tmp_path, 0.5, 1)
    weights = tmp_path / "1" / "variables" / "variables"
    weights.parent.mkdir()
    weights.with_suffix(".index").touch()
    lock = locks.ReadLock(str(weights))
    export(best, writer, tmp_path, 0.4, 2)
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]
    lock.release()
    export(best, writer, tmp_path, 0.6, 3)  # not better, but time to clean up
    assert os.listdir(tmp_path) == ["2"]


def test_what_is_recorded_comes_before_what_counts_on_it():
    model = types.SimpleNamespace(config=types.SimpleNamespace(spec=task_spec.ACOUSTIC))
    names = [exporter.name for exporter in exporters.build_exporters(model, None)]
    assert names == ["evaluations", "report", "best_checkpoints", "best", "final", "memory"]
