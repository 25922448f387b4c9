import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import event_files
import paths
import pytest
import tensorflow as tf

from estimator_asr.monitoring import progress
from estimator_asr.training import step_time

PROGRAM = paths.script("terminal_training.py")


class Session:
    """Calls a ProgressHook as MonitoredSession would, from step 40 on."""

    def __init__(self, monkeypatch, **options):
        self.now, self.step = 100.0, 40
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)
        self.clock = step_time.Clock(lambda: self.now)
        settings = {"unit": "frames", "max_steps": 60, "seconds": 10.0, "num_replicas": 2, **options}
        names = {name: name for name in ("number", "loss", "error_rate", "inputs")}
        self.hook = progress.ProgressHook(names, clock=self.clock, num_parameters=1234567, **settings)
        with tf.Graph().as_default():
            self.hook.begin()
        self.hook.after_create_session(self, None)

    def run(self, tensor):
        return self.step

    def run_step(self, seconds, loss=1.0, error_rate=0.25, inputs=500, evaluation=0.0, is_update=True):
        """Runs a step; returns True if its error rate is computed."""
        fetches = self.hook.before_run(None).fetches
        self.now += seconds
        if evaluation:
            self.clock.pause()
            self.now += evaluation
        values = {"number": self.step, "loss": loss, "error_rate": error_rate, "inputs": inputs}
        results = {key: values[key] for key in fetches}
        self.step += is_update
        self.hook.after_run(None, tf.compat.v1.train.SessionRunValues(results, None, None))
        return "error_rate" in fetches


def test_a_line_shows_step_loss_error_rate_speed_and_time_left(monkeypatch, log):
    session = Session(monkeypatch)
    for index in range(6):
        session.run_step(2.0, loss=float(index))
    # The steps took 2 s each; the loss is the mean of 0 to 5, and two replicas read 500 frames each per step.
    line = "step 46 of 60  loss 2.500  error rate 25.0 %  0.50 steps/s  500 frames/s  00:28 left"
    assert log == ["parameters: 1,234,567", line]


def test_the_error_rate_is_computed_only_for_the_steps_that_are_shown(monkeypatch):
    session = Session(monkeypatch)
    assert [session.run_step(4.0) for _ in range(8)] == [False, False, False, True] * 2


def test_evaluation_time_counts_for_time_left_but_not_for_speed(monkeypatch, log):
    session = Session(monkeypatch)
    for evaluation in (0.0, 90.0, 0.0):
        session.run_step(5.0, evaluation=evaluation)
    # The speed is three steps in 15 s. The time left is 17 steps at the pace of three steps in 105 s.
    assert "0.20 steps/s" in log[-1] and log[-1].endswith("09:55 left")


def test_with_gradient_accumulation_no_step_after_the_last_one_is_shown(monkeypatch, log):
    """A step has three batches; after the last update, one more batch runs before training ends."""
    session = Session(monkeypatch, max_steps=42)
    for is_update in (False, False, True, False, False, True, False):
        session.run_step(2.0, is_update=is_update)
    assert [line.split("  ")[0] for line in log[1:]] == ["step 41 of 42", "step 42 of 42"]


def test_a_terminal_gets_a_bar(monkeypatch, capsys, log):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    session = Session(monkeypatch)
    for _ in range(7):
        session.run_step(3.0, loss=1.5, error_rate=0.5)
    session.hook.end(session)
    assert len(log) == 1
    shown = capsys.readouterr().err
    assert "/60" in shown and "loss 1.500" in shown and "error rate 50.0 %" in shown


class Screen:
    """A terminal that understands the control characters of tqdm, but does not wrap lines."""

    def __init__(self):
        self.lines, self.row, self.column = [""], 0, 0
        self.seen = []  # all lines that were ever shown

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
    """Runs PROGRAM with a terminal of 100 columns as its standard error; returns the Screen and exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen([sys.executable, str(PROGRAM)], stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # the program has closed the terminal
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


class Waiting:
    """Calls a DataWaitHook for steps of one second; in each step, some time is spent waiting."""

    def __init__(self, path):
        self.seconds, self.step = 0.0, 0
        self.hook = progress.DataWaitHook("wait", "step", 2, str(path), self, "DOCTOR")
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
    fractions = event_files.read_scalars(tmp_path, "data_wait_fraction")
    assert fractions == pytest.approx({3: 0.02, 5: 0.05}) and log == []


def test_a_large_wait_fraction_is_warned_about_once(tmp_path, log):
    Waiting(tmp_path).run_steps(0.0, 0.3, 0.3, 0.5, 0.5)
    assert len(log) == 1
    assert "steps wait for input data 30 % of the time (less than 2 % is normal)" in log[0]
    assert log[0].endswith("measure the speed of the input alone with DOCTOR")
