from __future__ import annotations

import dataclasses
import math

import pytest
import tensorflow as tf
import test_run_loop

from estimator_asr import config, loop_config
from estimator_asr.training import evaluations, run_loop, stopping

NAN = math.nan
STILL = config.OptimizerConfig(base_learning_rate=1e-12, warmup_epochs=0)  # nothing is learned


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
    assert stopping.count_since_lowest(rates) == count


def test_patience_ends_training_and_says_what_was_lowest():
    history = Known(0.5, 0.25, 0.3, NAN)
    assert stopping.find_reason(history, 2, 39) is None
    said = "no new lowest error rate on dev in 2 evaluations (the lowest was 0.2500 at step 20)"
    assert stopping.find_reason(history, 2, 40) == said
    assert stopping.find_reason(history, 3, 40) is None and stopping.find_reason(history, 0, 40) is None
    assert stopping.find_reason(Known(NAN), 1, 10).endswith("1 evaluations (none gave a number)")


def test_the_hook_ends_training_with_the_step_that_was_evaluated():
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        number = tf.identity(step)
        with tf.control_dependencies([number]):
            train = tf.compat.v1.assign_add(step, 1)
        hook = stopping.EarlyStoppingHook(number, Known(0.5, 0.5, 0.5), 2)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                last = session.run(train)
    assert last == 30


@pytest.fixture
def lines(monkeypatch):
    said = []
    for module in (run_loop, stopping):
        monkeypatch.setattr(module.logging, "info", lambda text, *values: said.append(text % values))
    return said


def test_a_training_that_learns_nothing_ends_in_order_and_stays_ended(tmp_path, lines):
    model, infos, dirs = test_run_loop.make_model(
        tmp_path, optimizer=STILL, train_steps=40, save_checkpoints_steps=2
    )
    patient = loop_config.StoppingConfig(early_stopping_evaluations=2)
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, stopping=patient))
    run_loop.train(model, infos, dirs)
    assert test_run_loop.latest_step(model) == 6
    assert [evaluation.step for evaluation in evaluations.read(model.path)] == [2, 4, 6]
    (line,) = [line for line in lines if line.startswith("training ends at step 6: no new lowest error rate")]
    assert line.endswith(f"in 2 evaluations (the lowest was {_rate(model):.4f} at step 2)")
    for kind in ("best", "final"):
        assert len(list((tmp_path / "model" / "export" / kind).iterdir())) == 1
    run_loop.train(model, infos, dirs)
    assert lines[-1].startswith(f"{model.path}: stopped early at step 6, no new lowest error rate")
    assert lines[-1].endswith(", nothing to do")


def _rate(model):
    return evaluations.read(model.path)[0].figures["character-error-rate"]
