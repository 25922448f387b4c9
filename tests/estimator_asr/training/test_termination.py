from __future__ import annotations

import os
import signal

import pytest

from estimator_asr.training import step_time
from estimator_asr.training import termination as hooks


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_sigterm_is_remembered_and_its_handler_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with hooks.Termination() as termination:
        termination.raise_if_requested()
        os.kill(os.getpid(), signal.SIGTERM)
        assert termination.is_requested
        with pytest.raises(hooks.Terminated):
            termination.raise_if_requested()
    assert signal.getsignal(signal.SIGTERM) == before


class Context:
    def __init__(self):
        self.is_stopped = False

    def request_stop(self):
        self.is_stopped = True


def test_training_stops_and_evaluation_is_left_after_sigterm():
    termination, context = hooks.Termination(), Context()
    training, evaluation = hooks.StopTrainingHook(termination), hooks.StopEvaluationHook(termination)
    training.after_run(context, None)
    evaluation.after_run(context, None)
    assert not context.is_stopped
    termination.is_requested = True
    training.after_run(context, None)
    assert context.is_stopped
    with pytest.raises(hooks.Terminated):
        evaluation.after_run(context, None)


def test_the_listener_leaves_out_what_follows_a_checkpoint_after_sigterm():
    time = Time()
    termination, clock = hooks.Termination(), step_time.Clock(time)
    listener = hooks.CheckpointListener(termination, clock)
    clock.resume()
    listener.before_save(None, 1)
    time.now += 10
    assert clock.seconds == 0
    listener.after_save(None, 1)
    listener.end(None, 1)
    termination.is_requested = True
    for method in (listener.after_save, listener.end):
        with pytest.raises(hooks.Terminated):
            method(None, 1)
