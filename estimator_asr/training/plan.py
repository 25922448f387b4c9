"""The course of a training: where in the data it begins, how its epochs are cut into steps, when it ends."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Sequence

from absl import logging

from estimator_asr import config as config_lib
from estimator_asr import model_directory, training_config
from estimator_asr.inputs import buckets, input_progress, order, splits
from estimator_asr.training.optimizer import schedules
from tfrecord_builder import dataset_info

TRAIN_SPLIT = "train"
UNITS = {"acoustic": "frames", "language": "tokens"}


@dataclasses.dataclass(frozen=True)
class Course:
    """A training from a step on.

    Attributes:
        source: the training data.
        first_step: where it begins.
        max_steps: where it ends.
        history: the plans of batches so far (inputs/stretches.py); the last one is that of this run.
    """

    source: splits.Split
    first_step: int
    max_steps: int
    history: tuple[input_progress.Stretch, ...]

    @property
    def stretch(self) -> input_progress.Stretch:
        return self.history[-1]

    @property
    def start(self) -> input_progress.Position:
        """Where in the data the first step begins."""
        return self.stretch.position(self.first_step)

    @property
    def steps_per_epoch(self) -> float:
        return self.stretch.steps_per_epoch

    @property
    def batch_size(self) -> float:
        """Mean utterances of a step."""
        return self.source.num_utterances / self.steps_per_epoch

    @property
    def step_offset(self) -> int:
        """What to add to the global step so that a schedule in epochs knows those with other batches."""
        ahead = self.stretch.epoch + 1
        return round(ahead * self.steps_per_epoch - self.stretch.step_at(ahead))


def plan(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    first_step: int,
) -> Course:
    """Works out the course of a run.

    Args:
        model: settings, and the plans of earlier runs.
        infos, data_dirs: the data.
        first_step: global step of the checkpoint; 0 for a new model.

    Raises:
        errors.UserError: the training split or a shard of it is not there.
    """
    config = model.config
    source = splits.read_split(infos, data_dirs, TRAIN_SPLIT, config.model)
    batch_plan = splits.plan_batches(source, config.input)
    history = input_progress.continue_at(
        input_progress.load(model.path) if first_step else [],
        first_step,
        plan=batch_plan,
        order_sha256=_hash_order(source, config),
        batches_per_step=config.optimizer.gradient_accumulation_steps,
        count_batches=functools.partial(_count_batches, source, config, batch_plan),
    )
    return Course(source, first_step, _max_steps(config.train, history[-1]), tuple(history))


def one_utterance(model: str) -> Course:
    """Returns the course of a single utterance, an epoch a step; for trials of a model without data."""
    batch_plan = splits.BatchPlan((1,), (1,), 1)
    source = splits.Split(model, (), {1: 1}, 0.0, None, "float16", 1, "")
    return Course(source, 0, 1, (input_progress.Stretch(0, "", batch_plan, 1, 0.0, 0, (), 1),))


def _hash_order(source, config):
    parts = [source.sha256, config.train.seed, config.input.shuffle_records]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _count_batches(source, config, batch_plan, epoch, taken):
    lengths = order.read_lengths(source, config.input.shuffle_records, config.train.seed + epoch)
    left = lengths[input_progress.left_over(lengths, taken)]
    counts = {int(length): int((left == length).sum()) for length in set(left)}
    return buckets.batches_per_epoch(counts, batch_plan.bucket_ends, batch_plan.batch_sizes)


def _max_steps(config, stretch):
    if config.train_steps:
        return config.train_steps
    end = stretch.step_at(config.train_epochs or training_config.DEFAULT_EPOCHS)
    return max(1, math.ceil(round(end, 6)))


def log(course: Course, model: str, config: config_lib.OptimizerConfig, num_replicas: int) -> None:
    """Says what an epoch and the training are."""
    source, batch_plan = course.source, course.stretch.plan
    unit = UNITS[model]
    hours = f"{source.seconds / 3600:.2f} hours, " if source.seconds else ""
    logging.info(
        f"{TRAIN_SPLIT}: {source.num_utterances:,} utterances, {hours}{source.total_length:,} {unit}; "
        f"{batch_plan.batches_per_epoch:,} batches per epoch in {len(batch_plan.bucket_ends)} buckets, "
        f"{course.batch_size:.1f} utterances per step, {splits.padding_share(source, batch_plan):.1%} padding"
    )
    shapes = (f"{size:,} x {end:,}" for end, size in zip(batch_plan.bucket_ends, batch_plan.batch_sizes))
    logging.info(f"batches, utterances x {unit}: {', '.join(shapes)}")
    logging.info(
        f"training: {course.max_steps:,} steps ({course.stretch.epochs_at(course.max_steps):.1f} epochs), "
        f"{num_replicas} replica(s), "
        f"initial learning rate {schedules.initial_rate(config, course.batch_size):.3g}"
    )
    if course.start.taken:
        logging.info(
            f"epoch {course.start.epoch}: its first {course.start.index:,} batches are done; what they left "
            "is cut into batches of another size"
        )
