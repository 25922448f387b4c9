from __future__ import annotations

import types

import loop_models
import pytest

from estimator_asr.checkpointing import evaluation_log
from estimator_asr.training import evaluation


def test_the_report_shows_every_metric_once(monkeypatch):
    lines = []
    monkeypatch.setattr(evaluation.logging, "info", lambda text, *values: lines.append(text % values))
    result = {"loss": 9.0, "global_step": 12, "token-error-rate": 0.25, "avg-loss": 1.5}
    evaluation.Report().export(None, "", "", result, False)
    assert lines == ["dev at step 12: avg-loss 1.5000  token-error-rate 0.2500"]


class Alarms(evaluation.Report):
    name = "alarms"


def test_the_log_comes_after_the_best_checkpoints_and_memory_is_freed_last(tmp_path):
    model, _, _ = loop_models.make_model(tmp_path)
    dev = evaluation.Evaluation(model, lambda: None, [], [Alarms()])
    names = [exporter.name for exporter in dev.spec().exporters]
    assert names == ["best_checkpoints", "evaluations", "report", "alarms", "memory"]


class Estimator:
    def __init__(self, model_dir):
        self.model_dir = model_dir

    def latest_checkpoint(self):
        return "model.ckpt-20"


@pytest.mark.parametrize(
    "patience, step, last, known, is_evaluated",
    [
        (2, 20, 100, [10], True),  # early stopping counts the evaluation of step 20
        (2, 20, 100, [10, 20], False),
        (2, 17, 100, [10], False),  # a checkpoint that SIGTERM saved is not evaluated
        (0, 20, 100, [10], False),  # nothing counts it
        (0, 20, 20, [10], True),
        (0, 20, 20, [20], False),
    ],
)
def test_an_evaluation_that_was_killed_is_caught_up_where_it_matters(
    tmp_path, monkeypatch, patience, step, last, known, is_evaluated
):
    for each in known:
        evaluation_log.record(str(tmp_path), evaluation_log.Evaluation(each, each, {}))
    model = types.SimpleNamespace(
        path=str(tmp_path),
        config=types.SimpleNamespace(
            spec=types.SimpleNamespace(error_rate="error-rate"),
            train=types.SimpleNamespace(save_checkpoints_steps=10),
            optimizer=types.SimpleNamespace(schedule="step"),
            stopping=types.SimpleNamespace(early_stopping_evaluations=patience),
        ),
    )
    evaluated = []
    monkeypatch.setattr(evaluation.checkpoints, "latest_step", lambda path: step)
    monkeypatch.setattr(evaluation.Evaluation, "run", lambda self, estimator, path: evaluated.append(path))
    dev = evaluation.Evaluation(model, None, [], [])
    dev.catch_up(Estimator(str(tmp_path)), lambda each: each >= last)
    assert evaluated == ["model.ckpt-20"] * is_evaluated
