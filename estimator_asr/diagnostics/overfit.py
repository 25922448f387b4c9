"""--overfit_batches: a few utterances are learned by heart, as every sound model can; or it is said why not.

The model, loss and optimizer are those of the training, without masks, dropout, noise and label smoothing, at
the learning rate that the warm-up leads to. All happens in memory and in a temporary directory: the model
directory of the training is neither read nor written.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from collections.abc import Sequence

from absl import logging

from estimator_asr import experiment, model_directory
from estimator_asr.diagnostics import label_checks, overfit_verdict, trial
from estimator_asr.inputs import input_fn, splits
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import schedules
from tfrecord_builder import dataset_info, errors

LOSS = 0.05  # per label: the labels have a probability of 95 % then
NUM_UTTERANCES = 10  # in a batch, about
SECONDS = 120.0  # for each batch, once the graph is built
MAX_STEPS = 5000
# Adam's first steps are as long as the rate whatever the gradient.
_WARMUP_STEPS = 20
_PROGRESS_SECONDS = 5.0
_ROUNDING = 1e-6  # of float32


def run(
    config: experiment.ExperimentConfig,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    train_command: str,
    seconds: float = SECONDS,
) -> str:
    """Learns the first batches of the train split by heart; returns the sentence of success.

    Args:
        config: of the training; config.watch.overfit_batches says how many batches.
        infos, data_dirs: the data; checked against the config.
        train_command: as it was given, for what to run next.
        seconds: limit for each batch.

    Raises:
        errors.UserError: labels have the wrong form, or were not learned within the limit; says what is
            likely wrong and what to run next.
    """
    split = splits.read_split(infos, data_dirs, "train", config.spec)
    simple = simplify(config, split)
    count = config.watch.overfit_batches
    read = input_fn.build_input_fn(
        infos, data_dirs, "train", simple.input, spec=config.spec, training=True, seed=config.train.seed
    )
    batches = trial.read_batches(read, count)
    with tempfile.TemporaryDirectory() as directory:
        model = model_directory.create_or_check(directory, simple, data_dirs[0])
        label_checks.check(infos, data_dirs, model, splits=("train",))
        course = learn(model, batches, seconds * count)
    rate = config.optimizer.learning_rate
    sentence = overfit_verdict.describe(course, train_command, rate, ",".join(data_dirs))
    if not course.is_learned:
        raise errors.UserError(f"train: --overfit_batches={count}: {sentence}")
    return sentence


def simplify(config: experiment.ExperimentConfig, split: splits.Split) -> experiment.ExperimentConfig:
    """Returns the settings of a training that only has to remember.

    Args:
        config: of the training.
        split: what is learned from; batches of about ten utterances of any length are made of it.
    """
    batches_per_epoch = split.bucket(config.input).batches_per_epoch
    rate = schedules.initial_rate(config.optimizer, split.num_utterances / batches_per_epoch)
    length = NUM_UTTERANCES * max(split.length_counts)
    budget = config.spec.batch_budget
    smaller = {budget: min(getattr(config.input, budget), length)}
    return dataclasses.replace(
        config,
        acoustic=dataclasses.replace(config.acoustic, acoustic_dropout=0.0, label_smoothing=0.0),
        language=dataclasses.replace(
            config.language, language_dropout=0.0, ngram_dropout=0.0, token_noise=0.0
        ),
        input=dataclasses.replace(config.input, spec_augment=False, num_buckets=1, **smaller),
        optimizer=dataclasses.replace(
            config.optimizer,
            learning_rate=rate,
            learning_rate_batch_size=0.0,
            schedule="step",
            warmup_epochs=float(_WARMUP_STEPS),  # a trial's epoch is a step
            decay_boundary_epochs=(),
            decay_factors=(1.0,),
            gradient_accumulation_steps=1,
        ),
    )


def learn(
    model: model_directory.ModelDirectory, batches: trial.Batches, seconds: float, max_steps: int = MAX_STEPS
) -> overfit_verdict.Course:
    """Goes round the batches until all are known, time or steps are spent, or the loss is no number."""
    figures, error_rate = [], model.config.spec.error_rate
    with trial.start(model, batches.spec, strategies.session_config(model.config.train)) as running:
        started = shown = time.monotonic()
        while not is_learned(figures, len(batches.values), error_rate) and len(figures) < max_steps:
            figures.append(running.step_with_figures(batches.values[len(figures) % len(batches.values)]))
            now = time.monotonic()
            if now - shown >= _PROGRESS_SECONDS:
                shown = now
                logging.info("%s", overfit_verdict.progress(figures, error_rate, seconds - (now - started)))
            if now - started > seconds or not math.isfinite(figures[-1]["avg-loss"]):
                break
        spent = time.monotonic() - started
    known = is_learned(figures, len(batches.values), error_rate)
    return overfit_verdict.Course(model.config.spec, batches.values, figures, spent, known)


def is_learned(figures: Sequence[dict], num_batches: int, error_rate: str) -> bool:
    """Returns whether every batch, when it was seen last, had nearly no loss and no avoidable error."""
    last = figures[-num_batches:]
    return len(last) == num_batches and all(
        values["avg-loss"] < LOSS and values[error_rate] <= _unavoidable(values) + _ROUNDING
        for values in last
    )


def _unavoidable(values):
    """The fraction of labels that are unknown, so always wrong, or left out of the loss, so perhaps wrong."""
    return values.get("unknown-fraction", 0.0) + 1.0 - values.get("used-label-fraction", 1.0)
