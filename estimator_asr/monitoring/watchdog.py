"""Watchdog: observes training steps and evaluations, and raises an alarm if something looks wrong.

An alarm goes to the log, to MODEL_DIR/alarms.log (time, step, kind and sentence, separated by tabs) and to
TensorBoard's TEXT tab. Alarms about an evaluation go into the event file that contains its metrics, because
in a cluster another process writes the training event file, and TensorBoard stops reading an event file once
it finds a second event file in the same directory.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import os
import time
from collections.abc import Mapping
from typing import Optional

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import estimator_api
from estimator_asr.monitoring import alarms, observations, tensorboard

ALARMS_FILE = "alarms.log"
# Number of observations in constant_loss_steps steps. By default, summaries decode a batch equally often.
_OBSERVATIONS_IN_PATIENCE = 10
_NUM_SPANS = 3  # steps are kept for this many spans (TrainingFacts.span)
_REPEAT_SPANS = 10  # an alarm is repeated after this many spans if its rule still applies


class Watchdog:
    """Stores recent observations, and raises the alarms whose rules apply to the observations."""

    def __init__(self, training: observations.TrainingFacts):
        self._training = training
        self.steps_between = max(1, training.constant_loss_steps // _OBSERVATIONS_IN_PATIENCE)
        self._steps = collections.deque(maxlen=_NUM_SPANS * training.span // self.steps_between)
        self._evaluations = collections.deque(maxlen=2)
        self._raised_at = {}  # maps each kind of alarm to the step at which it was last raised

    def add_step(self, step: observations.ObservedStep) -> None:
        self._steps.append(step)
        self._check(alarms.STEP_ALARMS, step.number, self._training.model_dir)

    def add_evaluation(
        self, estimator: estimator_api.Estimator, checkpoint: str, metrics: Mapping[str, float]
    ) -> None:
        """Adds an evaluation on dev (see evaluation.AfterEvaluation)."""
        step = int(metrics["global_step"])
        train = observations.mean_metrics([observed.metrics for observed in self._steps])
        self._evaluations.append(observations.DevEvaluation(step, train, dict(metrics)))
        self._check(alarms.DEV_ALARMS, step, estimator.eval_dir())

    def _check(self, kinds, step, event_dir):
        observed = observations.Observations(self._training, list(self._steps), list(self._evaluations))
        for kind, alarm in kinds.items():
            if step - self._raised_at.get(kind, -math.inf) >= _REPEAT_SPANS * self._training.span:
                sentence = alarm.check(observed)
                if sentence:
                    self._raised_at[kind] = step
                    self._raise(kind, step, sentence, event_dir)

    def _raise(self, kind, step, sentence, event_dir):
        logging.warning("watchdog: step %d: %s", step, sentence)
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        with open(os.path.join(self._training.model_dir, ALARMS_FILE), "a", encoding="utf-8") as file:
            file.write(f"{now}\t{step}\t{kind}\t{sentence}\n")
        tensorboard.write_values(event_dir, [tensorboard.text_value(f"alarms/{kind}", sentence)], step)


@dataclasses.dataclass(eq=False)
class WatchdogHook(estimator_api.SessionRunHook):
    """A hook that passes each step's loss, and all metrics every steps_between steps, to the watchdog."""

    watchdog: Watchdog
    number: tf.Tensor  # int64 [], number of previous steps
    scalars: Mapping[str, tf.Tensor]  # the first replica's metrics, float32 [] each; avg-loss is per label

    def __post_init__(self):
        self._num_runs = 0
        self._losses = []

    def before_run(self, run_context):
        # Runs are counted as in the summary hook, so that both hooks decode the same steps.
        self._is_due = self._num_runs % self.watchdog.steps_between == 0
        fetches = {"loss": self.scalars["avg-loss"]}
        if self._is_due:
            fetches.update(number=self.number, scalars=self.scalars)
        return estimator_api.SessionRunArgs(fetches)

    def after_run(self, run_context, run_values):
        values = run_values.results
        self._num_runs += 1
        if math.isfinite(values["loss"]):
            self._losses.append(float(values["loss"]))
        if self._is_due:
            metrics = {tag: float(value) for tag, value in values["scalars"].items()}
            step = observations.ObservedStep(int(values["number"]) + 1, metrics, tuple(self._losses))
            self._losses = []
            self.watchdog.add_step(step)


def last_alarm(model_dir: str) -> Optional[tuple[int, str]]:
    """Returns (step, sentence) from the last complete line of MODEL_DIR/alarms.log, or None."""
    try:
        with open(os.path.join(model_dir, ALARMS_FILE), encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
    except FileNotFoundError:
        return None
    whole = [fields for fields in lines if len(fields) == 4 and fields[1].isdigit()]
    return (int(whole[-1][1]), whole[-1][3]) if whole else None
