"""The watchdog: looks at a training step now and then and at every evaluation, and says what looks broken.

An alarm goes to the log, to MODEL_DIR/alarms.log (time, step, kind, sentence; tabs between) and to the tab
TEXT of TensorBoard, that of an evaluation beside its figures: in a cluster another process writes those of
training, and TensorBoard reads no more of a directory's events when a second file of them begins. One of a
kind comes again only after some while.
"""

from __future__ import annotations

import collections
import math
import os
import time
from collections.abc import Mapping
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api, experiment
from estimator_asr.monitoring import alarms, dev_alarms, readings, summaries
from estimator_asr.tasks import task
from estimator_asr.training.optimizer import schedules

ALARMS_FILE = "alarms.log"
# A reading decodes a batch, which summaries do as often; the rules need ten of them in their patience.
_READINGS_IN_PATIENCE = 10
# So much of the loss is remembered.
_SPANS = 3
# An alarm is said again after so many times the patience, if it still holds.
_REPEAT = 10


def build_context(
    config: experiment.ExperimentConfig,
    *,
    train_command: str,
    model_dir: str,
    data_dir: str,
    error_rate: str,
    batch_size: float,
    steps_per_epoch: float,
    max_steps: int,
) -> readings.Context:
    """Returns what the alarms have to know.

    Args:
        config: of the training.
        train_command: as it was given, to be called again with another flag behind it.
        model_dir, data_dir: as they were given; data_dir comma separated.
        error_rate: tag of the decoded error rate.
        batch_size: mean utterances per step.
        steps_per_epoch, max_steps: of the training.
    """
    return readings.Context(
        train_command=train_command,
        model_dir=model_dir,
        data_dir=data_dir,
        error_rate=error_rate,
        warmup_steps=int(steps_per_epoch * config.optimizer.warmup_epochs),
        max_steps=max_steps,
        base_rate=config.optimizer.learning_rate,
        peak_rate=schedules.initial_rate(config.optimizer, batch_size),
        constant_loss_steps=config.watch.constant_loss_steps,
    )


class Watchdog:
    """Keeps a few readings and evaluations, and says each kind of alarm that the rules give."""

    def __init__(self, context: readings.Context):
        self.context = context
        self.steps_between = max(1, context.constant_loss_steps // _READINGS_IN_PATIENCE)
        self._readings = collections.deque(maxlen=_SPANS * context.span // self.steps_between)
        self._evaluations = collections.deque(maxlen=dev_alarms.IN_A_ROW)
        self._said = {}  # kind to the step of its last alarm

    def watch(self, step: task.Step, label_names: tuple[str, str]) -> WatchdogHook:
        """Returns the hook that reads a training step.

        Args:
            step: of the first replica.
            label_names: of the ids and of their number among the labels.
        """
        return WatchdogHook(self, step.number, step.scalars, [step.labels[name] for name in label_names])

    def add_reading(self, reading: readings.Reading) -> None:
        """Takes figures of a training step, and says what they mean."""
        self._readings.append(reading)
        self._apply(alarms.RULES, list(self._readings), reading.step, self.context.model_dir)

    def after_evaluation(self, eval_result: Mapping[str, float], event_dir: str) -> None:
        """Takes the figures of an evaluation on dev, global_step among them, and says what they mean."""
        step = int(eval_result["global_step"])
        train = readings.mean_figures(list(self._readings))
        self._evaluations.append(readings.Evaluation(step, train, dict(eval_result)))
        self._apply(dev_alarms.RULES, list(self._evaluations), step, event_dir)

    def _apply(self, rules, record, step, event_dir):
        for kind, rule in rules.items():
            sentence = rule(record, self.context) if self._may_say(kind, step) else None
            if sentence:
                self._said[kind] = step
                self._say(kind, step, sentence, event_dir)

    def _may_say(self, kind, step):
        return kind not in self._said or step - self._said[kind] >= _REPEAT * self.context.span

    def _say(self, kind, step, sentence, event_dir):
        logging.warning("watchdog: step %d: %s", step, sentence)
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        with open(os.path.join(self.context.model_dir, ALARMS_FILE), "a", encoding="utf-8") as file:
            file.write(f"{now}\t{step}\t{kind}\t{sentence}\n")
        summaries.write_values(event_dir, [summaries.text_value(f"alarms/{kind}", sentence)], step)


class WatchdogHook(estimator_api.SessionRunHook):
    """Fetches the loss of every step, and all figures of every so many steps."""

    def __init__(
        self,
        watchdog: Watchdog,
        number: tf.Tensor,
        scalars: Mapping[str, tf.Tensor],
        labels: list[tf.Tensor],
    ):
        """Takes tensors of the first replica.

        Args:
            watchdog: gets the readings.
            number: int64 [], steps made before this one.
            scalars: float32 [] by tag; avg-loss is the loss per label.
            labels: ids int32 [batch, max_ids], and their number int32 [batch].
        """
        self._watchdog = watchdog
        self._number = number
        self._scalars = dict(scalars)
        self._labels = labels
        self._num_runs = 0
        self._losses = []

    def before_run(self, run_context):
        # Counted as the summary hook does, so that both decode the same steps.
        self._is_due = self._num_runs % self._watchdog.steps_between == 0
        fetches = {"loss": self._scalars["avg-loss"]}
        if self._is_due:
            fetches.update(number=self._number, scalars=self._scalars, labels=self._labels)
        return estimator_api.SessionRunArgs(fetches)

    def after_run(self, run_context, run_values):
        values = run_values.results
        self._num_runs += 1
        if math.isfinite(values["loss"]):
            self._losses.append(float(values["loss"]))
        if self._is_due:
            figures = {tag: float(value) for tag, value in values["scalars"].items()}
            form = readings.label_form(*values["labels"])
            reading = readings.Reading(int(values["number"]) + 1, figures, tuple(self._losses), form)
            self._losses = []
            self._watchdog.add_reading(reading)


class WatchdogExporter(estimator_api.Exporter):
    """Shows every evaluation to the watchdog and exports nothing."""

    name = "watchdog"

    def __init__(self, watchdog: Watchdog):
        self._watchdog = watchdog

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        self._watchdog.after_evaluation(eval_result, estimator.eval_dir())


def last_alarm(model_dir: str) -> Optional[tuple[int, str]]:
    """Returns step and sentence of the last line of MODEL_DIR/alarms.log, None if there is none."""
    try:
        with open(os.path.join(model_dir, ALARMS_FILE), encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
    except FileNotFoundError:
        return None
    whole = [fields for fields in lines if len(fields) == 4 and fields[1].isdigit()]
    return (int(whole[-1][1]), whole[-1][3]) if whole else None
