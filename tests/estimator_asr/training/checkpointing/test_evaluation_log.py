import json
import math
import types

import pytest
import small_checkpoints

from estimator_asr.training.checkpointing import evaluation_log
from tfrecord_builder import errors


def make_evaluation(step, rate, loss=1.0):
    return evaluation_log.LoggedEvaluation(step, step, {"rate": rate, "loss": loss})


def make_estimator(model_dir, task_type="worker"):
    config = types.SimpleNamespace(task_type=task_type, save_checkpoints_steps=100)
    return types.SimpleNamespace(model_dir=str(model_dir), config=config)


def test_recorded_evaluations_are_read_oldest_first(tmp_path):
    path = str(tmp_path)
    assert evaluation_log.read_evaluations(path) == []
    for step, rate in [(4, 0.5), (2, 0.75), (4, 0.25)]:  # the last evaluation replaces the first
        evaluation_log.record_evaluation(path, make_evaluation(step, rate))
    assert evaluation_log.read_evaluations(path) == [make_evaluation(2, 0.75), make_evaluation(4, 0.25)]
    assert [file.name for file in tmp_path.iterdir()] == ["evaluations.json"]


def test_nan_and_infinity_are_kept_in_valid_json(tmp_path):
    evaluation_log.record_evaluation(str(tmp_path), make_evaluation(1, math.nan, math.inf))
    json.loads((tmp_path / "evaluations.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    (read,) = evaluation_log.read_evaluations(str(tmp_path))
    assert math.isnan(read.metrics["rate"]) and read.metrics["loss"] == math.inf


@pytest.mark.parametrize(
    "content", ["", "{", "3", "[3]", '[{"step": 1}]', '[{"step": 1, "known_at": 1, "metrics": 2}]']
)
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "evaluations.json").write_text(content, encoding="utf-8")
    said = "evaluations.json: cannot be read .*; restore it from a copy, or delete it, which discards all"
    with pytest.raises(errors.UserError, match=said):
        evaluation_log.read_evaluations(str(tmp_path))


def test_evaluations_after_the_resume_point_are_forgotten(tmp_path):
    path = str(tmp_path)
    evaluation_log.forget_after(path, 0)
    assert not list(tmp_path.iterdir())
    for step in (2, 4, 6):
        evaluation_log.record_evaluation(path, make_evaluation(step, 0.5))
    evaluation_log.forget_after(path, 4)
    assert [evaluation.step for evaluation in evaluation_log.read_evaluations(path)] == [2, 4]


def test_the_result_of_an_evaluation_is_recorded_without_its_step_among_the_metrics(tmp_path):
    result = {"global_step": 3, "rate": 0.5, "loss": 1.0}
    evaluation_log.record_metrics(make_estimator(tmp_path), result)
    assert evaluation_log.read_evaluations(str(tmp_path)) == [make_evaluation(3, 0.5)]


def test_an_evaluation_by_another_process_is_known_two_intervals_after_the_newest_checkpoint(tmp_path):
    for step in (100, 300):
        small_checkpoints.save(tmp_path, step)
    evaluator = make_estimator(tmp_path, task_type="evaluator")
    evaluation_log.record_metrics(evaluator, {"global_step": 100, "rate": 0.5})
    history = evaluation_log.History(str(tmp_path), "rate")
    assert history.known_at(499) == [] and history.known_at(500) == [(100, 0.5)]


def test_history_sees_evaluations_recorded_later(tmp_path):
    history = evaluation_log.History(str(tmp_path), "rate")
    assert history.known_at(9) == []
    evaluation_log.record_evaluation(str(tmp_path), make_evaluation(2, 0.5))
    assert history.known_at(9) == [(2, 0.5)]
    evaluation_log.record_evaluation(str(tmp_path), make_evaluation(4, 0.25))
    assert history.known_at(9) == [(2, 0.5), (4, 0.25)] and history.known_at(3) == [(2, 0.5)]
