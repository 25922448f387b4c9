from __future__ import annotations

import dataclasses
import json
import math

import loop_models
import paths
import programs
import pytest
import stopping_replicas
import tensorflow as tf

from estimator_asr.checkpointing import evaluation_log
from estimator_asr.training import early_stopping, exporters, loop

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
def test_evaluations_since_the_lowest(rates, count):
    assert early_stopping.count_since_lowest(rates) == count


def test_patience_ends_training_and_says_what_was_lowest():
    history = Known(0.5, 0.25, 0.3, NAN)
    assert early_stopping.find_reason(history, 2, 39) is None
    said = "no new lowest error rate on dev in 2 evaluations (the lowest was 0.2500 at step 20)"
    assert early_stopping.find_reason(history, 2, 40) == said
    assert (
        early_stopping.find_reason(history, 3, 40) is None
        and early_stopping.find_reason(history, 0, 40) is None
    )
    assert early_stopping.find_reason(Known(NAN), 1, 10).endswith("1 evaluations (none gave a number)")


def test_the_hook_ends_training_with_the_step_that_was_evaluated():
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        number = tf.identity(step)
        with tf.control_dependencies([number]):
            train = tf.compat.v1.assign_add(step, 1)
        hook = early_stopping.EarlyStoppingHook(number, Known(0.5, 0.5, 0.5), 2)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                last = session.run(train)
    assert last == 30


@pytest.fixture
def lines(monkeypatch):
    said = []
    for module in (loop, early_stopping):
        monkeypatch.setattr(
            module.logging, "info", lambda text, *values: said.append(text % values if values else text)
        )
    return said


def test_two_replicas_stop_and_lower_their_rate_as_one_does(tmp_path):
    completed = programs.run(paths.SUPPORT / "stopping_replicas.py", tmp_path)
    assert completed.returncode == 0, completed.stderr[-3000:]
    result = json.loads(completed.stdout.splitlines()[-1])
    assert result["evaluated"] == [2, 4, 6]  # the lowest, and two that bring nothing
    assert result["rates"] == {"1": 1, "2": 1, "3": 1, "4": 1, "5": 0.5, "6": 0.5}


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
    lowest = found[0].figures["character-error-rate"]
    said = f"no new lowest error rate on dev in 2 evaluations (the lowest was {lowest:.4f} at step 2)"
    assert lines.count(f"training ends at step 6: {said}") == 1
    final = exporters.read_evaluation(exporters.export_path(model.path, "final"))
    assert final["global_step"] == 6
    loop.train(model, infos, dirs)
    assert lines[-1] == f"{model.path}: stopped early at step 6, {said}, nothing to do"
