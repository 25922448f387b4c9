from __future__ import annotations

import os
import signal

import pytest
import tensorflow as tf

from estimator_asr.training import hooks


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_the_clock_stands_still_between_pause_and_resume():
    time = Time()
    clock = hooks.Clock(time)
    time.now += 5
    assert clock.seconds == 0
    clock.resume()
    time.now += 2
    assert clock.seconds == 2
    clock.pause()
    time.now += 100
    clock.resume()
    clock.resume()
    time.now += 1
    assert clock.seconds == 3


class Session:
    """Runs steps of one second by hand, as MonitoredSession would."""

    def __init__(self, monkeypatch, **options):
        self.time = Time()
        monkeypatch.setattr(hooks.time, "monotonic", self.time)
        self.lines = []
        monkeypatch.setattr(hooks.logging, "info", lambda text, *values: self.lines.append(text % values))
        self.clock = hooks.Clock(self.time)
        names = {"loss": "loss", "error_rate": "error_rate", "inputs": "inputs"}
        self.hook = hooks.ProgressHook(names, clock=self.clock, **options)
        self.hook._global_step = "step"
        self.step = 40

    def run(self, tensor):
        return self.step

    def start(self):
        self.hook.after_create_session(self, None)

    def run_step(self, seconds, loss, error_rate, inputs, evaluation=0.0):
        fetches = self.hook.before_run(None).fetches
        self.time.now += seconds
        if evaluation:
            hooks.CheckpointListener(hooks.Termination(), self.clock).before_save(None, self.step)
            self.time.now += evaluation
        values = {"global_step": self.step, "loss": loss, "error_rate": error_rate, "inputs": inputs}
        results = {key: values[key] for key in fetches}
        self.step += 1
        self.hook.after_run(None, tf.compat.v1.train.SessionRunValues(results, None, None))
        return fetches


OPTIONS = {"unit": "frames", "max_steps": 60, "seconds": 10.0, "num_replicas": 2, "num_parameters": 1234567}


def test_a_line_says_step_loss_error_rate_speed_and_time_left(monkeypatch):
    session = Session(monkeypatch, **OPTIONS)
    session.start()
    for index in range(6):
        session.run_step(2.0, loss=float(index), error_rate=0.25, inputs=500)
    # Six steps of 2 s: the mean loss of 0 .. 5, and two replicas of 500 frames each in 2 s.
    (line,) = session.lines
    assert line == "step 46 of 60  loss 2.500  error rate 25.0 %  0.50 steps/s  500 frames/s  left 00:28"


def test_the_error_rate_is_computed_only_for_the_steps_that_are_shown(monkeypatch):
    session = Session(monkeypatch, **OPTIONS)
    session.start()
    fetched = ["error_rate" in session.run_step(4.0, 1.0, 0.5, 10) for _ in range(8)]
    assert fetched == [False, False, False, True, False, False, False, True]


def test_evaluation_does_not_count_as_training_speed_but_as_time_left(monkeypatch):
    session = Session(monkeypatch, **OPTIONS)
    session.start()
    session.run_step(5.0, 1.0, 0.5, 100)
    session.run_step(5.0, 1.0, 0.5, 100, evaluation=90.0)
    session.run_step(5.0, 1.0, 0.5, 100)
    # Three steps of 5 s make the speed; three in 105 s what is to be expected of the other 17.
    assert "0.20 steps/s" in session.lines[0] and session.lines[0].endswith("left 09:55")


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    session = Session(monkeypatch, **OPTIONS)
    monkeypatch.setattr(hooks.sys.stderr, "isatty", lambda: True)
    session.start()
    for _ in range(7):
        session.run_step(3.0, 1.5, 0.5, 30)
    session.hook.end(session)
    assert session.lines == []
    shown = capsys.readouterr().err
    assert "/60" in shown and "loss 1.500" in shown and "error rate 50.0 %" in shown


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
    termination, clock = hooks.Termination(), hooks.Clock(time)
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
