"""Overfit test (--overfit_batches): trains on a few utterances until they are memorised, or explains why not.

Model, loss and optimizer are those of the training, without masks, dropout, noise and label smoothing, at the
learning rate after warm-up. The model directory of the training is neither read nor written.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence

from absl import logging

from estimator_asr.diagnostics import label_checks, overfit_verdict, trial
from estimator_asr.experiment import experiment, model_directory
from estimator_asr.inputs import input_fn, splits
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import schedules
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info

LOSS = 0.05  # per label: a label has a probability of 95 %
NUM_UTTERANCES = 10  # per batch, roughly
SECONDS = 120.0  # for each batch, once the graph is built
MAX_STEPS = 5000
_WARMUP_STEPS = 20  # Adam's first steps are as large as the rate, whatever the gradient
_PROGRESS_SECONDS = 5.0
_ROUNDING = 1e-6  # of float32


def run(
    config: experiment.ExperimentConfig,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    train_command: str,
    seconds: float = SECONDS,
) -> str:
    """Trains on the first batches of the train split, for `seconds` each; returns the message of success.

    config.watch.overfit_batches is the number of batches. Advice repeats the command of the training.

    Raises:
        errors.UserError: a shard cannot be read; labels have the wrong form, or are not memorised within the
            limit; names the likely cause and the next command.
    """
    split = splits.read_split(infos, data_dirs, "train", config.spec)
    simple = simplify(config, split)
    count = config.watch.overfit_batches
    read = input_fn.build_input_fn(split, simple.input, training=True, seed=config.train.seed)
    with splits.explain_damage(data_dirs, "train"):
        batches = list(input_fn.read_elements(lambda: read().take(count)))
    model = model_directory.open_new(data_dirs[0], simple, data_dirs[0])
    label_checks.check(infos, data_dirs, model, splits=("train",))
    result = learn(model, batches, seconds * count)
    rate = config.optimizer.learning_rate
    sentence = overfit_verdict.describe(result, train_command, rate, ",".join(data_dirs))
    if not result.is_learned:
        raise errors.UserError(f"train: --overfit_batches={count}: {sentence}")
    return sentence


def simplify(config: experiment.ExperimentConfig, split: splits.Split) -> experiment.ExperimentConfig:
    """Returns the settings of a training without regularisation, on batches of about ten utterances."""
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
            warmup_epochs=float(_WARMUP_STEPS),  # an epoch of a trial is one step
            decay_boundary_epochs=(),
            decay_factors=(1.0,),
            gradient_accumulation_steps=1,
        ),
    )


def learn(
    model: model_directory.ModelDirectory, batches: Sequence[trial.Batch], seconds: float
) -> overfit_verdict.Result:
    """Trains on the batches in turn until all are memorised, a limit is reached or the loss is NaN."""
    metrics, error_rate, count = [], model.config.spec.error_rate, len(batches)
    with trial.start(model, batches[0], strategies.session_config(model.config.train)) as running:
        started = shown = time.monotonic()
        while not is_learned(metrics, count, error_rate) and len(metrics) < MAX_STEPS:
            metrics.append(running.step_with_metrics(batches[len(metrics) % count]))
            now = time.monotonic()
            if now - shown >= _PROGRESS_SECONDS:
                shown = now
                _log_progress(len(metrics), metrics[-1], error_rate, seconds - (now - started))
            if now - started > seconds or not math.isfinite(metrics[-1]["avg-loss"]):
                break
        spent = time.monotonic() - started
    is_done = is_learned(metrics, count, error_rate)
    return overfit_verdict.Result(model.config.spec, batches, metrics, spent, is_done)


def _log_progress(step, metrics, error_rate, seconds_left):
    state = f"step {step}  loss {metrics['avg-loss']:.3f}  error rate {100 * metrics[error_rate]:.1f} %"
    logging.info(f"overfit: {state}  at most {max(seconds_left, 0):.0f} s left")


def is_learned(metrics: Sequence[dict], num_batches: int, error_rate: str) -> bool:
    """Returns whether each batch, in its last step, had nearly no loss and no avoidable error."""
    last = metrics[-num_batches:]
    return len(last) == num_batches and all(
        values["avg-loss"] < LOSS and values[error_rate] <= _unavoidable(values) + _ROUNDING
        for values in last
    )


def _unavoidable(values):
    """Returns the fraction of labels that are unknown (always wrong) or not in the loss (possibly wrong)."""
    return values.get("unknown-fraction", 0.0) + 1.0 - values.get("used-label-fraction", 1.0)
