"""The training plan: resume position, steps per epoch, total number of steps."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Sequence

from absl import logging

from estimator_asr.experiment import checkpoints, model_directory, task_spec, training_config
from estimator_asr.inputs import buckets, input_progress, splits
from estimator_asr.training.checkpointing import evaluation_log, recovery
from estimator_asr.training.optimizer import schedules
from tfrecord_builder.data import dataset_info

TRAIN_SPLIT = "train"
# The index is in the model directory, which a cluster's workers share and which outlives their machines.
_INDEX_DIRECTORY = "record_index"


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """The plan for a training run from global step `first_step`, where training resumes, to `max_steps`."""

    source: splits.Split
    first_step: int
    max_steps: int
    progress: input_progress.InputProgress

    @property
    def start(self) -> input_progress.InputPosition:
        """Position in the data at which training resumes."""
        return self.progress.position(self.first_step)

    @property
    def steps_per_epoch(self) -> float:
        return self.progress.steps_per_epoch

    @property
    def batch_size(self) -> float:
        """Mean number of utterances per step."""
        return self.source.num_utterances / self.steps_per_epoch

    @property
    def step_offset(self) -> float:
        """Offset to add to the global step in schedules; nonzero if earlier epochs had different batches."""
        return -self.progress.step_at(0)


def find_first_step(model: model_directory.ModelDirectory, is_writer: bool) -> int:
    """Returns the step of the checkpoint to continue from; 0 if there is no checkpoint.

    Only the process that writes checkpoints (is_writer) moves damaged files away; the other workers find the
    same checkpoint. Raises errors.UserError if no checkpoint can be read, or if the checkpoint belongs to
    another model or lacks the optimizer state.
    """
    config, step = model.config, 0
    checkpoint = recovery.recover(model.path) if is_writer else recovery.find_checkpoint(model.path)[0]
    if checkpoint:
        checkpoints.check(checkpoint, model)
        checkpoints.require_optimizer(checkpoint, config.optimizer.optimizer, config.train.precision)
        step = checkpoints.global_step(checkpoint)
    if is_writer:
        evaluation_log.forget_after(model.path, step)
    logging.info("%s: %s", model.path, f"continues from step {step}" if checkpoint else "new model")
    return step


def build_plan(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    first_step: int,
    num_replicas: int = 1,
) -> TrainingPlan:
    """Returns the plan for a run that starts at `first_step`, the checkpoint's step (0 for a new model).

    `num_replicas` is the total number of replicas on all machines. Raises errors.UserError if the training
    split or one of its shards is missing.
    """
    config = model.config
    source = splits.read_split(infos, data_dirs, TRAIN_SPLIT, config.spec)
    source = dataclasses.replace(source, index_dir=os.path.join(model.path, _INDEX_DIRECTORY))
    order = [source.sha256, config.train.seed, config.input.shuffle_records]
    wanted = input_progress.InputProgress(
        first_step=0,
        epoch=0,
        order_sha256=hashlib.sha256(json.dumps(order).encode()).hexdigest(),
        bucketing=source.bucket(config.input, num_replicas),
        batches_per_step=config.optimizer.gradient_accumulation_steps,
    )
    saved = input_progress.load(model.path) if first_step else None
    progress = input_progress.resume(saved, first_step, wanted)
    num_batches = saved.position(first_step).index if saved and progress != saved else 0
    if num_batches:
        logging.info(
            f"epoch {progress.epoch} starts again, because the batch sizes, the data, the seed or the number "
            f"of replicas changed after {num_batches:,} batches"
        )
    return TrainingPlan(source, first_step, max_steps(config.train, progress), progress)


def one_utterance(spec: task_spec.TaskSpec) -> TrainingPlan:
    """Returns a plan with one utterance and one step per epoch, for trying out a model without data."""
    source = dataclasses.replace(splits.Split.of_records(spec, None, "float16"), length_counts={1: 1})
    progress = input_progress.InputProgress(0, 0, "", buckets.Bucketing((1,), (1,), 1), 1)
    return TrainingPlan(source, 0, 1, progress)


def max_steps(config: training_config.TrainConfig, progress: input_progress.InputProgress) -> int:
    """Returns the global step at which training ends."""
    if config.train_steps:
        return config.train_steps
    end = progress.step_at(config.train_epochs or training_config.DEFAULT_EPOCHS)
    return max(1, math.ceil(round(end, 6)))


def log_plan(plan: TrainingPlan, config: training_config.OptimizerConfig, num_replicas: int) -> None:
    """Logs the amount of data, the batch sizes and the number of training steps."""
    source, bucketing = plan.source, plan.progress.bucketing
    unit = source.spec.unit
    hours = f"{source.seconds / 3600:.2f} hours, " if source.seconds else ""
    padding = buckets.padding_fraction(source.length_counts, bucketing.bucket_ends)
    logging.info(
        f"{TRAIN_SPLIT}: {source.num_utterances:,} utterances, {hours}{source.total_length:,} {unit}; "
        f"{bucketing.batches_per_epoch:,} batches per epoch in {len(bucketing.bucket_ends)} buckets, "
        f"{plan.batch_size:.1f} utterances per step, {padding:.1%} padding"
    )
    shapes = (f"{size:,} x {end:,}" for size, end in bucketing.shapes)
    logging.info(f"batch sizes in utterances x {unit}: {', '.join(shapes)}")
    logging.info(
        f"training: {plan.max_steps:,} steps ({plan.progress.epochs_at(plan.max_steps):.1f} epochs), "
        f"{num_replicas} replica(s), "
        f"initial learning rate {schedules.initial_rate(config, plan.batch_size):.3g}"
    )
