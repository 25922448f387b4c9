from __future__ import annotations

import dataclasses
import json
import math
import os
import signal

import loop_models
import paths
import programs
import pytest
import stopping_replicas
import tensorflow as tf

from estimator_asr.training import loop, step_time, stopping
from estimator_asr.training.checkpointing import evaluation_log
from tfrecord_builder import errors

NAN = math.nan


class Known:
    def __init__(self, *rates):
        self.rates = [(10 * (i + 1), rate) for i, rate in enumerate(rates)]

    def known_at(self, step):
        return [pair for pair in self.rates if pair[0] <= step]


@pytest.mark.parametrize(
    "rates, count",
    [
        ([], 0),
        ([0.5], 0),
        ([0.5, 0.5], 1),
        ([0.5, 0.6, 0.4], 0),
        ([0.4, 0.6, 0.4, 0.5], 3),
        ([NAN, NAN], 2),
        ([0.5, NAN], 1),
    ],
)
def test_evaluations_since_the_lowest_error_rate_are_counted(rates, count):
    assert stopping.count_since_lowest(rates) == count


def find(known, patience, step):
    return stopping.StopRule(known, patience, 1000).find_early_stop(step)


def test_patience_ends_training_and_names_the_lowest_rate():
    known = Known(0.5, 0.25, 0.3, NAN)
    reason = "no new lowest error rate on dev in 2 evaluations (the lowest was 0.2500 at step 20)"
    assert find(known, 2, 39) is None and find(known, 2, 40) == reason
    assert find(known, 3, 40) is None and find(known, 0, 40) is None
    assert find(Known(NAN), 1, 10).endswith("1 evaluations (all of them are NaN)")


def test_training_ends_at_the_last_step_or_early():
    rule = stopping.StopRule(Known(0.5, 0.5), 1, 30)
    assert rule.find_reason(10) is None and rule.find_reason(30) == "already at step 30 of 30"
    assert rule.find_reason(20).startswith("stopped early at step 20, no new lowest error rate on dev in 1 ")


def test_the_hook_ends_training_with_the_step_that_was_evaluated():
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        number = tf.identity(step)
        with tf.control_dependencies([number]):
            train = tf.compat.v1.assign_add(step, 1)
        hook = stopping.EarlyStoppingHook(number, stopping.StopRule(Known(0.5, 0.5, 0.5), 2, 1000))
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                last = session.run(train)
    assert last == 30


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_sigterm_is_remembered_and_the_previous_handler_restored():
    before = signal.getsignal(signal.SIGTERM)
    with stopping.Termination() as termination:
        termination.raise_if_requested()
        os.kill(os.getpid(), signal.SIGTERM)
        assert termination.is_requested
        with pytest.raises(stopping.Terminated):
            termination.raise_if_requested()
    assert signal.getsignal(signal.SIGTERM) == before


class Context:
    def __init__(self):
        self.is_stopped = False

    def request_stop(self):
        self.is_stopped = True


def test_sigterm_stops_training_and_aborts_evaluation():
    termination, context = stopping.Termination(), Context()
    training, evaluation = stopping.StopTrainingHook(termination), stopping.StopEvaluationHook(termination)
    training.after_run(context, None)
    evaluation.after_run(context, None)
    assert not context.is_stopped
    termination.is_requested = True
    training.after_run(context, None)
    assert context.is_stopped
    with pytest.raises(stopping.Terminated):
        evaluation.after_run(context, None)


def test_after_sigterm_no_evaluation_follows_a_checkpoint():
    time = Time()
    termination, clock = stopping.Termination(), step_time.Clock(time)
    listener = stopping.CheckpointListener(termination, clock.pause)
    clock.resume()
    listener.before_save(None, 1)
    time.now += 10
    assert clock.seconds == 0
    listener.after_save(None, 1)
    listener.end(None, 1)
    termination.is_requested = True
    for method in (listener.after_save, listener.end):
        with pytest.raises(stopping.Terminated):
            method(None, 1)


@pytest.fixture
def lines(monkeypatch):
    logged = []
    for module in (loop, stopping):
        monkeypatch.setattr(
            module.logging, "info", lambda text, *values: logged.append(text % values if values else text)
        )
    return logged


@pytest.mark.slow
def test_two_replicas_stop_and_lower_their_rate_as_one_does(tmp_path):
    completed = programs.run(paths.script("stopping_replicas.py"), tmp_path)
    assert completed.returncode == 0, completed.stderr[-3000:]
    result = json.loads(completed.stdout.splitlines()[-1])
    assert result["evaluated"] == [2, 4, 6]  # the lowest, and two that bring nothing
    assert result["rates"] == {"1": 1, "2": 1, "3": 1, "4": 1, "5": 0.5, "6": 0.5}


@pytest.mark.slow
def test_a_training_that_learns_nothing_ends_in_order_whatever_was_killed_before(tmp_path, lines):
    model, infos, dirs = stopping_replicas.make_model(tmp_path, train_steps=4)
    loop.train(model, infos, dirs)
    evaluation_log.forget_after(model.path, 2)  # as if killed while the checkpoint of step 4 was evaluated
    longer = dataclasses.replace(model.config.train, train_steps=40)
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, train=longer))
    loop.train(model, infos, dirs)
    found = evaluation_log.read(model.path)
    assert [evaluation.step for evaluation in found] == [2, 4, 6] and loop_models.latest_step(model) == 6
    assert stopping_replicas.read_rates(model) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 0.5, 6: 0.5}
    lowest = found[0].metrics["character-error-rate"]
    reason = f"no new lowest error rate on dev in 2 evaluations (the lowest was {lowest:.4f} at step 2)"
    assert lines.count(f"training ends at step 6: {reason}") == 1
    loop.train(model, infos, dirs)
    assert lines[-1] == f"{model.path}: stopped early at step 6, {reason}; nothing to do"


class Run:
    """One step of a worker whose peers request what is given."""

    def __init__(self, should_stop=lambda step: False, num_workers=2, first_step=100):
        self.termination = stopping.Termination()
        self.hook = stopping.CoordinatedStopHook(self.termination, num_workers, should_stop)
        self.hook._own, self.hook._sums = "own", "sums"
        self.hook._global_step = "step"
        self.first_step = first_step
        self.hook.after_create_session(self, None)
        self.is_stopped = False

    def run(self, fetch):
        return self.first_step

    def request_stop(self):
        self.is_stopped = True

    def step(self, *peers):
        (own,) = self.hook.before_run(None).feed_dict.values()
        sums = [sum(column) for column in zip(own, *peers)]
        self.hook.after_run(self, tf.compat.v1.train.SessionRunValues([sums, self.first_step], None, None))
        return own


def test_training_continues_while_no_worker_requests_a_stop():
    run = Run()
    assert run.step([0, 0, 100]) == [0, 0, 100]
    assert not run.is_stopped and not run.termination.is_requested


def test_sigterm_of_one_worker_stops_all():
    run = Run()
    run.step([0, 0, 100])
    run.step([1, 0, 100])
    assert run.is_stopped and run.termination.is_requested


def test_a_request_takes_effect_in_the_step_that_all_workers_share():
    run = Run()
    run.step([0, 0, 100])
    run.termination.is_requested = True
    assert not run.is_stopped
    assert run.step([0, 0, 100])[0] == 1
    assert run.is_stopped


def test_the_stopping_criterion_of_one_worker_stops_all_without_sigterm():
    run = Run(should_stop=lambda step: True)
    assert run.step([0, 0, 100]) == [0, 1, 100]
    assert run.is_stopped and not run.termination.is_requested


def test_workers_that_start_at_different_steps_are_refused():
    with pytest.raises(
        errors.UserError,
        match="starts at step 100, but other workers start at a different step; all workers need the same",
    ):
        Run().step([0, 0, 50])


def test_workers_compare_their_start_only_in_the_first_step():
    run = Run()
    run.step([0, 0, 100])
    run.step([0, 0, 7])  # impossible, but ignored
