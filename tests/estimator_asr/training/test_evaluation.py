import dataclasses
import os
import pathlib
import shutil
import types

import pytest
import small_checkpoints
import small_models
import tensorflow as tf

from estimator_asr.experiment import checkpoints, training_config
from estimator_asr.training import evaluation, stopping
from estimator_asr.training.checkpointing import best_checkpoints, evaluation_log
from tfrecord_builder import errors


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return small_models.make_for_loop(tmp_path_factory.mktemp("evaluation"))[0]


@pytest.fixture
def model(made, tmp_path):
    """A model without checkpoints, whose evaluator need not wait between evaluations."""
    return dataclasses.replace(made, path=shutil.copytree(made.path, str(tmp_path / "model")))


class Estimator:
    """Calls while_it_runs during each evaluation, then reads the checkpoint, which must still exist."""

    config = types.SimpleNamespace(task_type="worker")

    def __init__(self, model, while_it_runs=lambda checkpoint: None):
        self.model_dir = model.path
        self.evaluated, self._while_it_runs = [], while_it_runs

    def latest_checkpoint(self):
        return tf.train.latest_checkpoint(self.model_dir)

    def evaluate(self, input_fn, hooks, checkpoint_path):
        self._while_it_runs(checkpoint_path)
        self.evaluated.append(int(tf.train.load_variable(checkpoint_path, "global_step")))
        return {"global_step": self.evaluated[-1], "character-error-rate": 0.25, "avg-loss": 1.5, "loss": 9.0}


@pytest.mark.long
def test_what_follows_an_evaluation(model, log):
    """A logged evaluation is not repeated, so the best checkpoints must be saved before it is logged."""

    def observe(estimator, checkpoint, metrics):
        assert [best.step for best in best_checkpoints.read_best(model.path)] == [12]
        assert evaluation.is_evaluated(model.path, 12) and not evaluation.is_evaluated(model.path, 11)
        seen.append((checkpoint, metrics["avg-loss"]))

    seen, estimator = [], Estimator(model)
    checkpoint = small_checkpoints.save(model.path, 12)
    dev = evaluation.DevEvaluator(model, lambda: None, [], [observe])
    dev.run(estimator, checkpoint)
    (exporter,) = dev.spec().exporters  # train_and_evaluate calls this exporter
    exporter.export(estimator, "", checkpoint, estimator.evaluate(None, None, checkpoint), False)
    assert seen == [(checkpoint, 1.5)] * 2
    assert log == ["dev at step 12: avg-loss 1.5000  character-error-rate 0.2500"] * 2


def test_an_evaluation_that_cannot_be_kept_is_not_logged(model):
    small_checkpoints.save(f"{model.path}/best", 1)
    pathlib.Path(model.path, "best", "best_checkpoints.json").write_text("3")
    checkpoint = small_checkpoints.save(model.path, 12)
    with pytest.raises(errors.UserError, match="best_checkpoints.json: cannot be read"):
        evaluation.DevEvaluator(model, None, [], []).run(Estimator(model), checkpoint)
    assert not evaluation.is_evaluated(model.path, 12)


@pytest.mark.parametrize(
    "patience, step, last, known, is_evaluated",
    [
        (2, 20, 100, [10], True),  # early stopping counts the evaluation of step 20
        (2, 20, 100, [10, 20], False),
        (2, 17, 100, [10], False),  # a checkpoint saved after SIGTERM is not evaluated
        (0, 20, 100, [10], False),  # nothing depends on the evaluation
        (0, 20, 20, [10], True),
        (0, 20, 20, [20], False),
    ],
)
def test_a_killed_evaluation_is_repeated_if_it_matters(model, patience, step, last, known, is_evaluated):
    for each in known:
        evaluation_log.record_evaluation(model.path, evaluation_log.LoggedEvaluation(each, each, {}))
    small_checkpoints.save(model.path, step)
    config = dataclasses.replace(
        model.config,
        train=dataclasses.replace(model.config.train, save_checkpoints_steps=10),
        stopping=training_config.StoppingConfig(early_stopping_evaluations=patience),
    )
    estimator = Estimator(model)
    dev = evaluation.DevEvaluator(dataclasses.replace(model, config=config), None, [], [])
    dev.catch_up(estimator, lambda each: each >= last)
    assert estimator.evaluated == [step] * is_evaluated


@pytest.fixture
def world(monkeypatch):
    """Simulated time, which passes only in time.sleep; each call of sleep also triggers the next event."""
    events, now = [], [0.0]

    def sleep(seconds):
        now[0] += seconds
        if events:
            events.pop(0)()

    monkeypatch.setattr(evaluation.time, "sleep", sleep)
    monkeypatch.setattr(evaluation.time, "monotonic", lambda: now[0])
    return events, now


def follow(model, while_it_runs=lambda checkpoint: None, termination=None, throttle=0):
    """Follows a training run that ends at step 30; returns the evaluated steps."""
    train = dataclasses.replace(model.config.train, eval_throttle_seconds=throttle)
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, train=train))
    estimator, dev = Estimator(model, while_it_runs), evaluation.DevEvaluator(model, None, [], [])
    dev.follow(estimator, lambda step: step >= 30, termination or stopping.Termination())
    return estimator.evaluated


@pytest.mark.long
def test_each_checkpoint_is_evaluated_once_and_the_last_one_ends_it(model, world):
    events, _ = world
    for steps in ([10], [], [20], [30]):
        events.append(lambda steps=steps: [small_checkpoints.save(model.path, step) for step in steps])
    assert follow(model) == [10, 20, 30]


@pytest.mark.long
def test_evaluations_are_throttled_except_for_the_last(model, world):
    events, now = world
    small_checkpoints.save(model.path, 10)
    events += [lambda: small_checkpoints.save(model.path, 20), *[lambda: None] * 8]
    events += [lambda step=step: small_checkpoints.save(model.path, step) for step in (25, 30)]
    assert follow(model, throttle=5) == [10, 20, 25, 30] and now[0] == 11


def replace_checkpoint(model, checkpoint):
    """Deletes the checkpoint of step 10, as the chief's Saver does, and saves a checkpoint of step 30."""
    if checkpoint.endswith("-10"):
        for path in checkpoints.list_files(f"{model.path}/model.ckpt-10"):
            os.remove(path)
        small_checkpoints.save(model.path, 30)


@pytest.mark.long
def test_a_checkpoint_that_is_deleted_during_its_evaluation_is_still_evaluated(model, world):
    small_checkpoints.save(model.path, 10)
    assert follow(model, lambda checkpoint: replace_checkpoint(model, checkpoint)) == [10, 30]


def test_a_checkpoint_deleted_before_its_evaluation_is_skipped_with_a_warning(model, world, monkeypatch, log):
    link = checkpoints.link

    def delete_and_link(checkpoint, directory):
        replace_checkpoint(model, checkpoint)
        return link(checkpoint, directory)

    monkeypatch.setattr(checkpoints, "link", delete_and_link)
    deleted = small_checkpoints.save(model.path, 10)
    assert follow(model) == [30]
    assert log[0] == f"{deleted} was deleted before it could be evaluated"


def test_links_are_removed_even_those_of_a_killed_evaluator(model, world):
    small_checkpoints.save(f"{model.path}/evaluating", 5)
    small_checkpoints.save(model.path, 30)
    follow(model)
    assert not os.path.exists(f"{model.path}/evaluating")


@pytest.mark.long
def test_open_files_that_nfs_keeps_do_not_stop_the_evaluator(model, world, monkeypatch):
    """If an open file is removed, NFS renames it, so its directory cannot be removed."""
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    world[0].append(lambda: small_checkpoints.save(model.path, 30))
    small_checkpoints.save(model.path, 10)
    assert follow(model) == [10, 30]


def test_errors_of_an_evaluation_are_raised(model, world):
    def fail(checkpoint):
        raise tf.errors.DataLossError(None, None, "record")

    small_checkpoints.save(model.path, 10)
    with pytest.raises(tf.errors.DataLossError):
        follow(model, fail)


def test_sigterm_ends_the_wait_for_a_checkpoint(model, world):
    termination = stopping.Termination()
    world[0].append(lambda: setattr(termination, "is_requested", True))
    with pytest.raises(stopping.Terminated):
        follow(model, termination=termination)
