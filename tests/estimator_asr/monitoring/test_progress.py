from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import numpy as np
import paths
import pytest
import tensorflow as tf

from estimator_asr.monitoring import progress
from estimator_asr.training import step_time, stopping

PROGRAM = paths.script("terminal_training.py")


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Session:
    """Runs steps of one second by hand, as MonitoredSession would."""

    def __init__(self, monkeypatch, **options):
        self.time = Time()
        monkeypatch.setattr(progress.time, "monotonic", self.time)
        self.lines = []
        monkeypatch.setattr(progress.logging, "info", lambda text, *values: self.lines.append(text % values))
        self.clock = step_time.Clock(self.time)
        names = {name: name for name in ("number", "loss", "error_rate", "inputs")}
        self.hook = progress.ProgressHook(names, clock=self.clock, **options)
        self.hook._global_step = "step"
        self.step = 40

    def run(self, tensor):
        return self.step

    def start(self):
        self.hook.after_create_session(self, None)

    def run_step(self, seconds, loss, error_rate, inputs, evaluation=0.0, is_update=True):
        fetches = self.hook.before_run(None).fetches
        self.time.now += seconds
        if evaluation:
            stopping.CheckpointListener(stopping.Termination(), self.clock.pause).before_save(None, self.step)
            self.time.now += evaluation
        values = {"number": self.step, "loss": loss, "error_rate": error_rate, "inputs": inputs}
        results = {key: values[key] for key in fetches}
        self.step += is_update
        self.hook.after_run(None, tf.compat.v1.train.SessionRunValues(results, None, None))
        return fetches


OPTIONS = {"unit": "frames", "max_steps": 60, "seconds": 10.0, "num_replicas": 2, "num_parameters": 1234567}


def test_a_line_shows_step_loss_error_rate_speed_and_time_left(monkeypatch):
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


def test_evaluation_time_counts_for_time_left_but_not_for_speed(monkeypatch):
    session = Session(monkeypatch, **OPTIONS)
    session.start()
    session.run_step(5.0, 1.0, 0.5, 100)
    session.run_step(5.0, 1.0, 0.5, 100, evaluation=90.0)
    session.run_step(5.0, 1.0, 0.5, 100)
    # Three steps of 5 s are the speed; three steps in 105 s predict the time of the other 17.
    assert "0.20 steps/s" in session.lines[0] and session.lines[0].endswith("left 09:55")


def test_with_gradient_accumulation_no_step_after_the_last_one_is_shown(monkeypatch):
    """Three batches per step; after the last update one more batch runs before training ends."""
    session = Session(monkeypatch, **{**OPTIONS, "max_steps": 42})
    session.start()
    for is_update in (False, False, True, False, False, True, False):
        session.run_step(2.0, 1.0, 0.25, 500, is_update=is_update)
    assert [line.split("  ")[0] for line in session.lines] == ["step 41 of 42", "step 42 of 42"]


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    session = Session(monkeypatch, **OPTIONS)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    session.start()
    for _ in range(7):
        session.run_step(3.0, 1.5, 0.5, 30)
    session.hook.end(session)
    assert session.lines == []
    shown = capsys.readouterr().err
    assert "/60" in shown and "loss 1.500" in shown and "error rate 50.0 %" in shown


class Screen:
    """The content of a terminal after some output: the control characters of tqdm, no wrapping."""

    def __init__(self):
        self.lines, self.row, self.column = [""], 0, 0
        self.seen = []  # every line that was ever shown

    def write(self, text):
        while text:
            if text.startswith("\x1b[A"):
                self.row, text = max(self.row - 1, 0), text[3:]
            elif text[0] in "\r\n":
                self.seen.append(self.lines[self.row])
                self.column = 0
                self.row += text[0] == "\n"
                self.lines += [""] * (self.row + 1 - len(self.lines))
                text = text[1:]
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + text[0] + line[self.column + 1 :]
                self.column, text = self.column + 1, text[1:]


def run_in_terminal():
    """Runs the program with a terminal of 100 columns as its standard error; returns the exit code too."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen([sys.executable, str(PROGRAM)], stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(ours, 1 << 16):
            output += part
    os.close(ours)
    screen = Screen()
    screen.write(output.decode())
    return screen, process.wait(60)


@pytest.mark.long
def test_in_a_terminal_log_lines_bars_and_errors_leave_each_other_intact():
    screen, exit_code = run_in_terminal()
    shown = [line.rstrip() for line in screen.lines if line.strip()]
    said = [line.split("] ")[-1] for line in shown]
    assert said[:4] == ["parameters: 1,000", "checkpoint of step 20", "half of dev", "dev at step 20: done"]
    assert said[4].startswith("step 30/40 |") and said[4].endswith(" frames/s")
    assert ", loss 1.500  error rate 25.0 %  " in said[4]
    assert said[5:] == ["error: data: a shard is damaged, expected a complete one; copy it again."]
    assert any(line.startswith("dev ") and "/10 |" in line and " left " in line for line in screen.seen)
    assert max(map(len, shown)) <= 100 and exit_code == 1


def test_without_a_terminal_evaluation_is_quiet(capsys):
    hook = progress.EvaluationHook("dev", 3)
    hook.after_create_session(None, None)
    hook.after_run(None, None)
    hook.end(None)
    assert capsys.readouterr().err == ""


def scalars(path):
    found = {}
    for file in path.glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            found.update({(event.step, value.tag): value.simple_value for value in event.summary.value})
    return found


class Waiting:
    """Steps of one second by hand, of which some is waiting."""

    def __init__(self, path, every_steps=2):
        self.seconds, self.step = 0.0, 0
        self.hook = progress.DataWaitHook(
            "wait",
            "step",
            every_steps=every_steps,
            event_dir=str(path),
            clock=self,
            doctor_command="DOCTOR",
        )
        self.hook.begin()
        self.hook.after_create_session(None, None)

    def run_steps(self, *waits):
        for wait in waits:
            assert self.hook.before_run(None).fetches == ["wait", "step"]
            self.seconds += 1.0
            values = tf.compat.v1.train.SessionRunValues([wait, self.step], None, None)
            with tf.Graph().as_default():
                self.hook.after_run(None, values)
            self.step += 1


def test_the_wait_fraction_is_written_per_group_of_steps_without_the_first(tmp_path, log):
    Waiting(tmp_path).run_steps(0.9, 0.01, 0.03, 0.0, 0.1)
    shown = scalars(tmp_path)
    assert set(shown) == {(3, "data_wait_fraction"), (5, "data_wait_fraction")}
    np.testing.assert_allclose([shown[key] for key in sorted(shown)], [0.02, 0.05], rtol=1e-5)
    assert log == []


def test_a_large_wait_fraction_is_warned_about_once(tmp_path, log):
    Waiting(tmp_path).run_steps(0.0, 0.3, 0.3, 0.5, 0.5)
    assert len(log) == 1
    assert "steps wait for data 30 % of the time, expected less than 2 %" in log[0]
    assert log[0].endswith("measure the input alone: DOCTOR")
