"""Shows the progress of training and evaluation as a bar or log lines, and measures the wait for data."""

from __future__ import annotations

import contextlib
import dataclasses
import logging as standard_logging
import sys
import time
import weakref
from collections.abc import Iterator, Mapping

import tensorflow as tf
import tqdm
from absl import logging

from estimator_asr.experiment import estimator_api
from estimator_asr.monitoring import tensorboard
from estimator_asr.training import step_time

_BAR_SECONDS = 1.0  # time between updates of a bar's metrics; each update decodes a batch
_MUCH_WAITING = 0.1  # warn if steps wait for a larger fraction of the time; less than 0.02 is normal
_bars: weakref.WeakSet[tqdm.tqdm] = weakref.WeakSet()  # all bars that have been opened


@dataclasses.dataclass(eq=False)
class ProgressHook(estimator_api.SessionRunHook):
    """A hook that shows the step, loss, decoded error rate, speed and remaining time.

    The tensors come from the first replica: "number" (int64 [], the number of previous steps), "loss"
    (float32 [], per label), "error_rate" (float32 []) and "inputs" (int32 [], the number of frames or tokens
    in its batch). The error rate needs decoding, so it is computed only for steps that are shown.
    """

    tensors: Mapping[str, tf.Tensor]
    unit: str  # unit of "inputs": "frames" or "tokens"
    max_steps: int  # total number of steps
    seconds: float  # time between log lines
    num_replicas: int  # total number of replicas, by which the first replica's "inputs" are multiplied
    num_parameters: int  # number of weights, logged when training starts
    clock: step_time.Clock  # pauses during evaluations; used to compute the speed

    def begin(self):
        logging.info("parameters: %s", f"{self.num_parameters:,}")
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session, coord):
        self._first_step = session.run(self._global_step)
        self._started = time.monotonic()
        self._next_step = self._first_step + 1
        self._start_window(self._first_step)
        self._bar = _open_bar("step", self.max_steps, self._first_step, keep=True)
        if not self._bar.disable:
            self.seconds = min(self.seconds, _BAR_SECONDS)
        self.clock.resume()

    def before_run(self, run_context):
        is_last = self._next_step >= self.max_steps > self._window_step
        self._is_due = is_last or time.monotonic() - self._shown >= self.seconds
        names = ["number", "loss", "inputs"] + (["error_rate"] if self._is_due else [])
        return estimator_api.SessionRunArgs({name: self.tensors[name] for name in names})

    def after_run(self, run_context, run_values):
        self.clock.resume()
        values = run_values.results
        # If gradients are accumulated, a step has several batches, and one extra batch follows the last step.
        step = min(int(values["number"]) + 1, self.max_steps)
        self._next_step = step + 1
        self._batches += 1
        self._loss += values["loss"]
        self._inputs += int(values["inputs"]) * self.num_replicas
        if self._is_due and step > self._window_step:
            self._show(step, values["error_rate"])
            self._start_window(step)
        self._bar.update(step - self._bar.n)

    def end(self, session):
        self.clock.pause()
        self._bar.close()

    def _start_window(self, step):
        self._window_step, self._batches, self._loss, self._inputs = step, 0, 0.0, 0
        self._shown, self._window_start = time.monotonic(), self.clock.seconds

    def _show(self, step, error_rate):
        seconds = max(self.clock.seconds - self._window_start, 1e-9)
        metrics = f"loss {self._loss / self._batches:.3f}  error rate {100 * error_rate:.1f} %"
        speed = f"{self._inputs / seconds:,.0f} {self.unit}/s"
        if not self._bar.disable:
            self._bar.set_postfix_str(f"{metrics}  {speed}", refresh=False)
            return
        per_step = (time.monotonic() - self._started) / max(step - self._first_step, 1)
        remaining = tqdm.tqdm.format_interval((self.max_steps - step) * per_step)
        shown = f"{metrics}  {(step - self._window_step) / seconds:.2f} steps/s  {speed}"
        logging.info("step %d of %d  %s  %s left", step, self.max_steps, shown, remaining)


@dataclasses.dataclass(eq=False)
class DataWaitHook(estimator_api.SessionRunHook):
    """A hook that records the fraction of time that steps wait for input, and warns if it is large."""

    wait: tf.Tensor  # float64 [], seconds that the step waited (see step_time.time_input)
    step: tf.Tensor  # int64 [], number of previous steps
    every_steps: int  # number of steps over which each fraction is measured
    event_dir: str  # directory of the event file
    clock: step_time.Clock
    doctor_command: str  # command that times the input pipeline alone

    def begin(self):
        self._has_warned = False

    def after_create_session(self, session, coord):
        self._began = None

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs([self.wait, self.step])

    def after_run(self, run_context, run_values):
        wait, step = run_values.results
        if self._began is None:  # the first step is left out, because it also fills the input pipeline
            self._start_window()
            return
        self._waited, self._steps = self._waited + wait, self._steps + 1
        if self._steps == self.every_steps:
            self._show(self._waited / max(self.clock.seconds - self._began, 1e-9), int(step) + 1)
            self._start_window()

    def _start_window(self):
        self._waited, self._steps, self._began = 0.0, 0, self.clock.seconds

    def _show(self, fraction, step):
        value = tensorboard.Value(tag="data_wait_fraction", simple_value=fraction)
        tensorboard.write_values(self.event_dir, [value], step)
        if fraction > _MUCH_WAITING and not self._has_warned:
            self._has_warned = True
            logging.warning(
                "steps wait for input data %.0f %% of the time (less than 2 %% is normal); move the data to "
                "a faster disk, or measure the speed of the input alone with %s",
                *(100 * fraction, self.doctor_command),
            )


@dataclasses.dataclass(eq=False)
class EvaluationHook(estimator_api.SessionRunHook):
    """A hook that shows an evaluation's progress in a terminal; the bar disappears at the end."""

    split: str
    num_batches: int

    def after_create_session(self, session, coord):
        self._bar = _open_bar(self.split, self.num_batches, keep=False)

    def after_run(self, run_context, run_values):
        self._bar.update()

    def end(self, session):
        self._bar.close()


def _open_bar(name, total, done=0, *, keep):
    """Returns a bar that is disabled without a terminal; if `keep` is True, it stays visible when closed."""
    form = "{desc} {n_fmt}/{total_fmt} |{bar}| left {remaining}{postfix}"
    options = {"smoothing": 0, "dynamic_ncols": True, "disable": None, "file": sys.stderr, "bar_format": form}
    bar = tqdm.tqdm(total=total, initial=done, desc=name, leave=keep, **options)
    _bars.add(bar)
    return bar


@contextlib.contextmanager
def beside_log_lines() -> Iterator[None]:
    """Keeps log lines above the bars while the block runs; then closes all bars, even after an error."""
    root = standard_logging.getLogger()
    handlers = list(root.handlers)
    if sys.stderr.isatty():
        root.handlers[:] = [_AboveBars(handler) for handler in handlers]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        # Bars are closed from the lowest to the highest, that is, from the newest to the oldest.
        for bar in sorted(_bars, key=lambda open_bar: -open_bar.pos):
            bar.close()


class _AboveBars(standard_logging.Handler):
    """Hides the bars while another handler writes, because tqdm's redirection fails with absl logging."""

    def __init__(self, handler):
        super().__init__()
        self._handler = handler

    def emit(self, record):
        with tqdm.tqdm.external_write_mode(file=sys.stderr):
            self._handler.handle(record)
