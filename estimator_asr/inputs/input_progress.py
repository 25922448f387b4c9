"""How far training is in its data, also when the batches became larger or smaller on the way.

A run with other batches (another --batch_frames, other buckets) continues inside the epoch: it takes the
utterances that the batches before it left over, in the epoch's order. What a batch held is a function of the
lengths in that order, so a list of the plans that were used, with the step where each began, is all that must
be remembered. It lies in MODEL_DIR/input_progress.json.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.inputs import splits
from tfrecord_builder import config_json, errors

FILE = "input_progress.json"


@dataclasses.dataclass(frozen=True)
class Taken:
    """The first num_batches batches of a plan, of what earlier plans left of an epoch."""

    plan: splits.BatchPlan
    num_batches: int


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Steps that were made with one plan.

    Attributes:
        first_step: global step at its start.
        order_sha256: of all that the order of an epoch depends on: data, seed, shuffling.
        plan: its batches.
        batches_per_step: how many batches an update takes.
        epochs: how many epochs had been seen at its start, as a fraction; an epoch that other data cut short
            counts as one.
        epoch: number of the epoch in which it began.
        taken: what earlier plans took of that epoch.
        rest: batches of its plan that were left of that epoch.
    """

    first_step: int
    order_sha256: str
    plan: splits.BatchPlan
    batches_per_step: int
    epochs: float
    epoch: int
    taken: tuple[Taken, ...]
    rest: int

    @property
    def steps_per_epoch(self) -> float:
        return self.plan.batches_per_epoch / self.batches_per_step

    def epochs_at(self, step: int) -> float:
        """Returns how many epochs have been seen before a step, as a fraction."""
        made = (step - self.first_step) * self.batches_per_step
        if made < self.rest:
            return self.epochs + made / self.rest * (self.epoch + 1 - self.epochs)
        return self.epoch + 1 + (made - self.rest) / self.plan.batches_per_epoch

    def step_at(self, epochs: float) -> float:
        """Returns the step before which so many epochs have been seen, as a fraction."""
        ahead = self.epoch + 1
        if epochs < ahead:
            made = self.rest * (epochs - self.epochs) / (ahead - self.epochs)
        else:
            made = self.rest + (epochs - ahead) * self.plan.batches_per_epoch
        return self.first_step + made / self.batches_per_step

    def position(self, step: int) -> Position:
        """Returns where a step begins to read."""
        made = (step - self.first_step) * self.batches_per_step
        if made < self.rest:
            return Position(self.epoch, self.taken, made)
        epochs, index = divmod(made - self.rest, self.plan.batches_per_epoch)
        return Position(self.epoch + 1 + epochs, (), index)


class Position(NamedTuple):
    """A place in the data.

    Attributes:
        epoch: number of the epoch.
        taken: what earlier plans took of it.
        made: batches of the present plan that were taken of the rest.
    """

    epoch: int
    taken: tuple[Taken, ...]
    made: int

    @property
    def index(self) -> int:
        """How many batches of the epoch came before."""
        return sum(taken.num_batches for taken in self.taken) + self.made


def continue_at(
    history: Sequence[Stretch],
    step: int,
    *,
    plan: splits.BatchPlan,
    order_sha256: str,
    batches_per_step: int,
    count_batches: Callable[[int, tuple[Taken, ...]], int],
) -> list[Stretch]:
    """Returns the history with a stretch that reaches to `step` as its last.

    Without a history all steps are taken to be of this run's plan.

    Args:
        history: what lies in the model directory; what began after `step` is dropped.
        step: global step of the checkpoint.
        plan, order_sha256, batches_per_step: of this run.
        count_batches: function of an epoch and what was taken of it that returns how many batches of `plan`
            the rest makes. Called only where a run changes its batches inside an epoch.
    """
    history = [stretch for stretch in history if stretch.first_step <= step]
    if not history:
        return [Stretch(0, order_sha256, plan, batches_per_step, 0.0, 0, (), plan.batches_per_epoch)]
    last = history[-1]
    if (last.order_sha256, last.plan, last.batches_per_step) == (order_sha256, plan, batches_per_step):
        return history
    epoch, taken, made = last.position(step)
    taken = (*taken, Taken(last.plan, made)) if made else taken
    epochs = last.epochs_at(step)
    if taken and last.order_sha256 != order_sha256:
        epoch, taken, epochs = epoch + 1, (), epoch + 1.0  # nobody knows what of other data was seen
    rest = count_batches(epoch, taken) if taken else plan.batches_per_epoch
    stretch = Stretch(step, order_sha256, plan, batches_per_step, epochs, epoch, taken, rest)
    return [*(old for old in history if old.first_step < step), stretch]


def find(
    history: Sequence[Stretch], epoch: int, index: int, plan: splits.BatchPlan
) -> tuple[splits.BatchPlan, Position]:
    """Returns the plan and the place of batch `index` of an epoch; without a history those of `plan`."""
    for stretch in reversed(history):
        began = Position(stretch.epoch, stretch.taken, 0)
        if epoch > stretch.epoch:
            return stretch.plan, Position(epoch, (), index)
        if epoch == stretch.epoch and index >= began.index:
            return stretch.plan, Position(epoch, stretch.taken, index - began.index)
    return plan, Position(epoch, (), index)


def left_over(lengths: np.ndarray, taken: Sequence[Taken]) -> np.ndarray:
    """Returns which utterances of an epoch no batch has had yet.

    Batches are made as bucket_by_sequence_length makes them: one leaves when its bucket is full; at the end
    the buckets leave, shortest first.

    Args:
        lengths: int32 [num_utterances], in the epoch's order.
        taken: the batches that were made, one plan after the other.

    Returns:
        bool [num_utterances].
    """
    is_left = np.ones(len(lengths), bool)
    for plan, num_batches in ((each.plan, each.num_batches) for each in taken):
        for places in _list_batches(lengths, is_left, plan)[:num_batches]:
            is_left[places] = False
    return is_left


def _list_batches(lengths, is_left, plan):
    buckets = [[] for _ in plan.bucket_ends]
    batches = []
    for place in np.flatnonzero(is_left):
        number = int(np.searchsorted(plan.bucket_ends, lengths[place]))
        buckets[number].append(place)
        if len(buckets[number]) == plan.batch_sizes[number]:
            batches.append(buckets[number])
            buckets[number] = []
    return batches + [bucket for bucket in buckets if bucket]


def load(model_dir: str) -> list[Stretch]:
    """Reads the history of a model directory; empty if there is none.

    Raises:
        errors.UserError: the file is not what save writes.
    """
    path = os.path.join(model_dir, FILE)
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8") as file:
            return [config_json.from_json_dict(Stretch, values) for values in json.load(file)]
    except (ValueError, TypeError, AttributeError, errors.UserError) as error:
        raise errors.UserError(
            f"{path}: is not a list of stretches of training ({error}); restore it, or delete it if the "
            "batches were always of this run's size"
        ) from error


def save(model_dir: str, history: Sequence[Stretch]) -> None:
    """Writes the history, whole or not at all."""
    path = os.path.join(model_dir, FILE)
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump([config_json.to_json_dict(stretch) for stretch in history], file, indent=1)
    os.replace(f"{path}.tmp", path)
