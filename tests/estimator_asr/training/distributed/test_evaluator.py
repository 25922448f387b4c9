from __future__ import annotations

import os
import shutil

import pytest
import tensorflow as tf

from estimator_asr.training import stopping
from estimator_asr.training.distributed import evaluator


def save(model_dir, step):
    """Makes a checkpoint that is the newest of the directory."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("global_step", initializer=tf.constant(step, tf.int64))
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, os.path.join(model_dir, "model.ckpt"), step)


class Evaluation:
    """Reads the weights of each checkpoint, as the exporters do, after something happened."""

    def __init__(self, while_it_runs=lambda checkpoint: None):
        self.seen = []
        self._while_it_runs = while_it_runs

    def run(self, checkpoint):
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

    monkeypatch.setattr(evaluator.time, "sleep", sleep)
    monkeypatch.setattr(evaluator.time, "monotonic", lambda: now[0])
    return events, now


def run(model_dir, evaluation, termination=None, throttle=0, last=30):
    evaluator.evaluate_checkpoints(
        str(model_dir),
        evaluation.run,
        is_last=lambda step: step >= last,
        throttle_seconds=throttle,
        termination=termination or stopping.Termination(),
    )


def test_each_checkpoint_is_evaluated_once_and_the_last_one_ends_it(tmp_path, world):
    events, _ = world
    events += [
        lambda: save(tmp_path, 10),
        lambda: None,
        lambda: save(tmp_path, 20),
        lambda: save(tmp_path, 30),
    ]
    evaluation = Evaluation()
    run(tmp_path, evaluation)
    assert evaluation.seen == [10, 20, 30]


def test_evaluations_are_throttled_except_for_the_last(tmp_path, world):
    events, now = world
    save(tmp_path, 10)
    events += [lambda: save(tmp_path, 20), *[lambda: None] * 8, lambda: save(tmp_path, 25)]
    events += [lambda: save(tmp_path, 30)]
    evaluation = Evaluation()
    run(tmp_path, evaluation, throttle=5)
    assert evaluation.seen == [10, 20, 25, 30] and now[0] == 11


def delete(model_dir, step):
    """Deletes a checkpoint as the Saver of the chief does."""
    for path in model_dir.glob(f"model.ckpt-{step}.*"):
        path.unlink()


def test_a_checkpoint_that_is_deleted_during_its_evaluation_is_still_evaluated(tmp_path, world):
    def lose(checkpoint):
        if checkpoint.endswith("-10"):
            delete(tmp_path, 10)
            save(tmp_path, 30)

    evaluation = Evaluation(lose)
    save(tmp_path, 10)
    run(tmp_path, evaluation)
    assert evaluation.seen == [10, 30]
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and any(path.iterdir())]  # no copy stays


def test_a_checkpoint_that_is_deleted_before_its_evaluation_is_skipped_with_a_warning(
    tmp_path, world, monkeypatch
):
    lines, link = [], evaluator.checkpoints.link
    monkeypatch.setattr(evaluator.logging, "warning", lambda text, *rest: lines.append(text % rest))

    def delete_and_link(checkpoint, directory):
        if checkpoint.endswith("-10"):
            delete(tmp_path, 10)
            save(tmp_path, 30)
        return link(checkpoint, directory)

    monkeypatch.setattr(evaluator.checkpoints, "link", delete_and_link)
    evaluation = Evaluation()
    deleted = save(tmp_path, 10)
    run(tmp_path, evaluation)
    assert evaluation.seen == [30]
    assert lines == [f"{deleted}: was deleted before it could be evaluated"]


def test_links_left_by_a_killed_evaluator_are_removed(tmp_path, world):
    (tmp_path / "evaluating").mkdir()
    (tmp_path / "evaluating" / "model.ckpt-5.index").write_text("")
    save(tmp_path, 30)
    run(tmp_path, Evaluation())
    assert not (tmp_path / "evaluating").exists()


def test_open_files_that_nfs_keeps_do_not_stop_the_evaluator(tmp_path, world, monkeypatch):
    """It renames the file, and then refuses to remove the directory."""
    events, _ = world
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    events.append(lambda: save(tmp_path, 30))
    save(tmp_path, 10)
    evaluation = Evaluation()
    run(tmp_path, evaluation)
    assert evaluation.seen == [10, 30]


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
