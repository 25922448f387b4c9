"""Metrics from a real training run of 800 steps that went well and must raise no alarm.

A tiny acoustic model was trained on 48 utterances of small_records at learning rate 0.003, and observed every
20 steps. For the first 150 steps, it output only blanks.
"""

import csv

import paths

from estimator_asr.monitoring import observations

LEARNING_RATE = 0.003


def make_steps() -> list[observations.ObservedStep]:
    """Returns the steps as the watchdog would have observed them."""
    steps, others = [], {"learning-rate": LEARNING_RATE, "gradient-zero-fraction": 0.01}
    with open(paths.ROOT / "tests" / "data" / "healthy_training.tsv", encoding="utf-8") as file:
        (_, *tags, _), *lines = csv.reader(file, delimiter="\t")
    for step, *values, losses in lines:
        metrics = {**dict(zip(tags, map(float, values))), **others}
        steps.append(observations.ObservedStep(int(step), metrics, tuple(map(float, losses.split()))))
    return steps
