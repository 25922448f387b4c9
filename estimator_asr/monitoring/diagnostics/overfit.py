"""Overfit test (--overfit_batches): trains on a few utterances until they are memorised, or explains why not.

The test uses the same model, loss and optimizer as training, at the learning rate after the warm-up, but no
masks, dropout, noise or label smoothing. It neither reads nor writes the model directory.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from estimator_asr.experiment import experiment, model_directory, task_spec
from estimator_asr.inputs import input_fn, splits
from estimator_asr.monitoring import advice
from estimator_asr.monitoring.diagnostics import label_checks, trial
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import schedules
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info

LOSS = 0.05  # below this loss per label, labels have a probability over 95 %, so the batch is memorised
NUM_UTTERANCES = 10  # approximate number of utterances per batch
SECONDS = 120.0  # time limit per batch, excluding the time to build the graph
MAX_STEPS = 5000
_WARMUP_STEPS = 20  # Adam's first steps are as large as the learning rate, however small the gradients are
_PROGRESS_SECONDS = 5.0
_ROUNDING = 1e-6  # rounding error of float32 fractions
# More steps would help if the loss still falls by this fraction in the second half of the steps.
_STILL_FALLING = 0.1


class OverfitResult(NamedTuple):
    """Result of an overfit test."""

    spec: task_spec.TaskSpec
    batches: Sequence[tuple]  # (features, labels) pairs; both are dicts of numpy arrays
    metrics: Sequence[Mapping[str, float]]  # metrics of each step, keyed by tag
    seconds: float  # duration of the training steps
    is_learned: bool  # True if all batches were memorised


def run_overfit_test(
    config: experiment.ExperimentConfig,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    train_command: str,
    seconds: float = SECONDS,
) -> str:
    """Trains on the train split's first batches, for up to `seconds` per batch; returns a success message.

    config.watch.overfit_batches is the number of batches. Commands in messages add flags to train_command.
    Raises errors.UserError if a shard cannot be read, a label is wrong, or the batches were not memorised in
    time; the message names the likely cause and the command to run next.
    """
    split = splits.read_split(infos, data_dirs, "train", config.spec)
    simple = simplify(config, split)
    count = config.watch.overfit_batches
    read = input_fn.build_input_fn(split, simple.input, training=True, seed=config.train.seed)
    with splits.explain_damage(data_dirs, "train"):
        batches = list(input_fn.read_elements(lambda: read().take(count)))
    model = model_directory.open_new(data_dirs[0], simple, data_dirs[0])
    label_checks.check_sample(infos, data_dirs, model, splits=("train",))
    result = _learn(model, batches, seconds * count)
    sentence = describe(result, train_command, config.optimizer.learning_rate, ",".join(data_dirs))
    if not result.is_learned:
        raise errors.UserError(f"train: --overfit_batches={count}: {sentence}")
    return sentence


def simplify(config: experiment.ExperimentConfig, split: splits.Split) -> experiment.ExperimentConfig:
    """Returns the settings without regularisation, and with batches of about NUM_UTTERANCES utterances."""
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
        punctuation=dataclasses.replace(config.punctuation, dropout=0.0, ngram_dropout=0.0, unknown_rate=0.0),
        input=dataclasses.replace(config.input, spec_augment=False, num_buckets=1, **smaller),
        optimizer=dataclasses.replace(
            config.optimizer,
            learning_rate=rate,
            learning_rate_batch_size=0.0,
            schedule="step",
            warmup_epochs=float(_WARMUP_STEPS),  # start_trial treats each step as an epoch
            decay_boundary_epochs=(),
            decay_factors=(1.0,),
            gradient_accumulation_steps=1,
        ),
    )


def _learn(model, batches, seconds):
    """Trains on the batches in turn until all are memorised, a limit is reached or the loss is not finite."""
    metrics, error_rate, count = [], model.config.spec.error_rate, len(batches)
    with trial.start_trial(model, batches[0], strategies.session_config(model.config.train)) as running:
        started = shown = time.monotonic()
        while not is_learned(metrics, count, error_rate) and len(metrics) < MAX_STEPS:
            metrics.append(running.step_with_metrics(batches[len(metrics) % count]))
            loss, rate, now = metrics[-1]["avg-loss"], 100 * metrics[-1][error_rate], time.monotonic()
            if now - shown >= _PROGRESS_SECONDS:
                shown, remaining = now, max(seconds - (now - started), 0)
                state = f"step {len(metrics)}  loss {loss:.3f}  error rate {rate:.1f} %"
                logging.info(f"overfit: {state}  at most {remaining:.0f} s left")
            if now - started > seconds or not math.isfinite(loss):
                break
        spent = time.monotonic() - started
    return OverfitResult(model.config.spec, batches, metrics, spent, is_learned(metrics, count, error_rate))


def is_learned(metrics: Sequence[Mapping], num_batches: int, error_rate: str) -> bool:
    """Returns True if every batch had a loss below LOSS and no avoidable errors in its last step."""
    last = metrics[-num_batches:]
    return len(last) == num_batches and all(
        values["avg-loss"] < LOSS and values[error_rate] <= _unavoidable(values) + _ROUNDING
        for values in last
    )


def _unavoidable(values):
    """Returns the fraction of labels that are unknown or left out of the loss and so cannot be learned."""
    return values.get("unknown-fraction", 0.0) + 1.0 - values.get("used-label-fraction", 1.0)


def describe(result: OverfitResult, train_command: str, base_rate: float, data_dir: str) -> str:
    """Describes the result in a sentence: the number of steps, or the likely cause of failure and a command.

    Suggested commands add flags to train_command, whose --learning_rate is base_rate. data_dir is
    comma-separated.
    """
    num_utterances = sum(len(labels[result.spec.labels[1]]) for _, labels in result.batches)
    steps = f"{result.seconds:.0f} s ({len(result.metrics)} steps)"
    loss, error_rate = result.metrics[-1]["avg-loss"], result.metrics[-1][result.spec.error_rate]
    show = advice.command("tfrecord_builder.show", data_dir=data_dir.split(",")[0])
    if result.is_learned:
        return (
            f"{num_utterances} utterances were memorised after {steps}: loss {loss:.3f} per label, "
            "no errors, so the model, the loss and the optimizer work. Wrong labels would be memorised too; "
            f"to check that a record matches its labels, run {show}"
        )
    causes = (*_causes_in_data(result, data_dir, show), _cause_in_losses(result, train_command, base_rate))
    return (
        f"{num_utterances} utterances were not memorised after {steps}, loss {loss:.3g} per label, "
        f"error rate {100 * error_rate:.0f} %; {causes[0]}"
    )


def _causes_in_data(result, data_dir, show):
    key, num_contradictions = result.spec.features[0], count_contradictions(result)
    if not all(np.isfinite(features[key]).all() for features, _ in result.batches):
        verify = advice.command("tfrecord_builder.verify", data_dir=data_dir)
        yield f"features contain NaN or Inf; find them with {verify}"
    if num_contradictions:
        text = f"{num_contradictions} of them have the same input as another utterance but different labels"
        yield f"{text}; inspect a record with {show}"
    too_long = result.metrics[-1].get("too-long-fraction", 0.0)
    if too_long:
        text = f"{100 * too_long:.0f} % of them have more labels than frames after subsampling"
        doctor = advice.command("estimator_asr.doctor", data_dir=data_dir)
        yield f"{text}; to list the worst utterances, run {doctor}"


def _cause_in_losses(result, train_command, base_rate):
    losses = [values["avg-loss"] for values in result.metrics]
    size = max(1, len(losses) // 10)
    half = max(size, len(losses) // 2)
    first, middle, last = map(np.mean, (losses[:size], losses[half - size : half], losses[-size:]))
    slower, faster = (f"try {train_command} --learning_rate={base_rate * factor:.2g}" for factor in (0.1, 3))
    if not math.isfinite(last):
        return f"the loss is NaN or Inf, because the learning rate is too high; {slower}"
    if last >= first:
        return f"the loss rises, because the learning rate is too high; {slower}"
    if last < (1 - _STILL_FALLING) * middle:
        return f"the loss is still falling, so the learning rate or the time limit is too low; {faster}"
    return f"the loss is constant, because the learning rate is too high or the model is too small; {slower}"


def count_contradictions(result: OverfitResult) -> int:
    """Returns the number of utterances with the same input as an earlier utterance but different labels."""
    labels_by_input, count = {}, 0
    for features, labels in result.batches:
        pairs = zip(_rows(features, *result.spec.features), _rows(labels, *result.spec.labels))
        count += sum(labels_by_input.setdefault(key, label) != label for key, label in pairs)
    return count


def _rows(values, name, number):
    """Returns the rows of values[name] as bytes, without padding; values[number] contains their lengths."""
    return [np.ascontiguousarray(row[:count]).tobytes() for row, count in zip(values[name], values[number])]
