from __future__ import annotations

import os
import shutil
import types

import loop_models
import pytest
import tensorflow as tf

from estimator_asr.training import evaluation, stopping
from estimator_asr.training.checkpointing import evaluation_log


def test_the_report_shows_every_metric_once(monkeypatch):
    lines = []
    monkeypatch.setattr(evaluation.logging, "info", lambda text, *values: lines.append(text % values))
    result = {"loss": 9.0, "global_step": 12, "token-error-rate": 0.25, "avg-loss": 1.5}
    evaluation.MetricsReport().export(None, "", "", result, False)
    assert lines == ["dev at step 12: avg-loss 1.5000  token-error-rate 0.2500"]


class Alarms(evaluation.MetricsReport):
    name = "alarms"


def test_the_log_comes_after_the_best_checkpoints_and_memory_is_freed_last(tmp_path):
    model, _, _ = loop_models.make_model(tmp_path)
    dev = evaluation.DevEvaluator(model, lambda: None, [], [Alarms()])
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
        evaluation_log.record(str(tmp_path), evaluation_log.LoggedEvaluation(each, each, {}))
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
    monkeypatch.setattr(evaluation.DevEvaluator, "run", lambda self, estimator, path: evaluated.append(path))
    dev = evaluation.DevEvaluator(model, None, [], [])
    dev.catch_up(Estimator(str(tmp_path)), lambda each: each >= last)
    assert evaluated == ["model.ckpt-20"] * is_evaluated


def save(model_dir, step):
    """Makes a checkpoint that is the newest of the directory."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("global_step", initializer=tf.constant(step, tf.int64))
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, os.path.join(model_dir, "model.ckpt"), step)


class Evaluation(evaluation.DevEvaluator):
    """Reads the weights of each checkpoint, as the exporters do, after something happened."""

    throttle_seconds = 0

    def __init__(self, while_it_runs=lambda checkpoint: None):
        self.seen = []
        self._while_it_runs = while_it_runs

    def run(self, estimator, checkpoint):
        self._while_it_runs(checkpoint)
        self.seen.append(int(tf.train.load_variable(checkpoint, "global_step")))


@pytest.fixture
def world(monkeypatch):
    """Time that passes only in sleep, and events that happen there."""
    events, now = [], [0.0]

    def sleep(seconds):
        now[0] += seconds
        if events:
            events.pop(0)()

    monkeypatch.setattr(evaluation.time, "sleep", sleep)
    monkeypatch.setattr(evaluation.time, "monotonic", lambda: now[0])
    return events, now


def run(model_dir, dev, termination=None, throttle=0, last=30):
    dev._model = types.SimpleNamespace(path=str(model_dir))
    dev.throttle_seconds = throttle
    dev.follow(None, lambda step: step >= last, termination or stopping.Termination())


def test_each_checkpoint_is_evaluated_once_and_the_last_one_ends_it(tmp_path, world):
    events, _ = world
    events += [
        lambda: save(tmp_path, 10),
        lambda: None,
        lambda: save(tmp_path, 20),
        lambda: save(tmp_path, 30),
    ]
    dev = Evaluation()
    run(tmp_path, dev)
    assert dev.seen == [10, 20, 30]


def test_evaluations_are_throttled_except_for_the_last(tmp_path, world):
    events, now = world
    save(tmp_path, 10)
    events += [lambda: save(tmp_path, 20), *[lambda: None] * 8, lambda: save(tmp_path, 25)]
    events += [lambda: save(tmp_path, 30)]
    dev = Evaluation()
    run(tmp_path, dev, throttle=5)
    assert dev.seen == [10, 20, 25, 30] and now[0] == 11


def delete(model_dir, step):
    """Deletes a checkpoint as the Saver of the chief does."""
    for path in model_dir.glob(f"model.ckpt-{step}.*"):
        path.unlink()


def test_a_checkpoint_that_is_deleted_during_its_evaluation_is_still_evaluated(tmp_path, world):
    def lose(checkpoint):
        if checkpoint.endswith("-10"):
            delete(tmp_path, 10)
            save(tmp_path, 30)

    dev = Evaluation(lose)
    save(tmp_path, 10)
    run(tmp_path, dev)
    assert dev.seen == [10, 30]
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and any(path.iterdir())]  # no copy stays


def test_a_checkpoint_that_is_deleted_before_its_evaluation_is_skipped_with_a_warning(
    tmp_path, world, monkeypatch
):
    lines, link = [], evaluation.checkpoints.link
    monkeypatch.setattr(evaluation.logging, "warning", lambda text, *rest: lines.append(text % rest))

    def delete_and_link(checkpoint, directory):
        if checkpoint.endswith("-10"):
            delete(tmp_path, 10)
            save(tmp_path, 30)
        return link(checkpoint, directory)

    monkeypatch.setattr(evaluation.checkpoints, "link", delete_and_link)
    dev = Evaluation()
    deleted = save(tmp_path, 10)
    run(tmp_path, dev)
    assert dev.seen == [30]
    assert lines == [f"{deleted} was deleted before it could be evaluated"]


def test_links_left_by_a_killed_evaluator_are_removed(tmp_path, world):
    (tmp_path / "evaluating").mkdir()
    (tmp_path / "evaluating" / "model.ckpt-5.index").write_text("")
    save(tmp_path, 30)
    run(tmp_path, Evaluation())
    assert not (tmp_path / "evaluating").exists()


def test_open_files_that_nfs_keeps_do_not_stop_the_evaluator(tmp_path, world, monkeypatch):
    """NFS renames an open file that is removed, so the directory cannot be removed."""
    events, _ = world
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    events.append(lambda: save(tmp_path, 30))
    save(tmp_path, 10)
    dev = Evaluation()
    run(tmp_path, dev)
    assert dev.seen == [10, 30]


def test_errors_of_an_evaluation_are_raised(tmp_path, world):
    def fail(checkpoint):
        raise tf.errors.DataLossError(None, None, "record")

    save(tmp_path, 10)
    with pytest.raises(tf.errors.DataLossError):
        run(tmp_path, Evaluation(fail))


def test_sigterm_ends_the_wait_for_a_checkpoint(tmp_path, world):
    events, _ = world
    termination = stopping.Termination()
    events.append(lambda: setattr(termination, "is_requested", True))
    with pytest.raises(stopping.Terminated):
        run(tmp_path, Evaluation(), termination)
