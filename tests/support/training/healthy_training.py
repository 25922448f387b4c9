"""Metrics of a real training of 800 steps that went well, which must raise no alarm.

A tiny acoustic model on 48 utterances of small_records, learning rate 0.003: only blanks for 150 steps, then
it learns. It was observed every 20 steps.
"""

import csv

import paths

from estimator_asr.monitoring import observations

LEARNING_RATE = 0.003


def make_steps() -> list[observations.ObservedStep]:
    """Returns the steps as the watchdog would have observed them."""
    with open(paths.ROOT / "tests" / "data" / "healthy_training.tsv", encoding="utf-8") as file:
        _, *tags, _ = next(lines := csv.reader(file, delimiter="\t"))
        return [_make_step(int(step), dict(zip(tags, values)), values[-1]) for step, *values in lines]


def _make_step(step: int, metrics: dict[str, str], losses: str) -> observations.ObservedStep:
    others = {"learning-rate": LEARNING_RATE, "gradient-zero-fraction": 0.01}
    metrics = {tag: float(value) for tag, value in metrics.items()}
    return observations.ObservedStep(step, {**metrics, **others}, tuple(map(float, losses.split())))
