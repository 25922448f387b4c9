"""The position of training in its data, from the global step: which epoch, and which batch of it.

They are quotient and remainder of the batches consumed by the batches per epoch. A run whose batches, data or
seed differ from those before restarts its epoch and counts from there; the start of that epoch is stored in
MODEL_DIR/input_progress.json.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import NamedTuple, Optional

from estimator_asr.inputs import buckets
from tfrecord_builder import errors
from tfrecord_builder.settings import config_json
from tfrecord_builder.storage import files

FILE = "input_progress.json"


class Position(NamedTuple):
    """An epoch, and the index of the next batch in it."""

    epoch: int
    index: int


START = Position(0, 0)


@dataclasses.dataclass(frozen=True)
class InputProgress:
    """Counts batches from the start of an epoch."""

    first_step: int  # global step at that start
    epoch: int  # number of that epoch
    order_sha256: str  # of what the order of an epoch depends on: data, seed, shuffling
    bucketing: buckets.Bucketing  # batches of an epoch
    batches_per_step: int  # batches per update of the weights

    @property
    def steps_per_epoch(self) -> float:
        return self.bucketing.batches_per_epoch / self.batches_per_step

    def position(self, step: int) -> Position:
        """Returns where the update of a global step begins to read."""
        consumed = max(step - self.first_step, 0) * self.batches_per_step
        epochs, index = divmod(consumed, self.bucketing.batches_per_epoch)
        return Position(self.epoch + epochs, index)

    def epochs_at(self, step: int) -> float:
        """Returns how many epochs are complete at a global step, as a fraction."""
        return self.epoch + (step - self.first_step) / self.steps_per_epoch

    def step_at(self, epochs: float) -> float:
        """Returns the global step at which so many epochs are complete, as a fraction."""
        return self.first_step + (epochs - self.epoch) * self.steps_per_epoch


def resume(saved: Optional[InputProgress], step: int, wanted: InputProgress) -> InputProgress:
    """Returns the progress of a run that continues from the checkpoint of a global step.

    It is `saved`, of the runs before (None: none), if nothing differs from `wanted`, which counts this run's
    batches from epoch 0 on; otherwise `wanted` from the start of the epoch that was interrupted.
    """
    if saved is None:
        return wanted
    moved = dataclasses.replace(wanted, first_step=saved.first_step, epoch=saved.epoch)
    if moved == saved and step >= saved.first_step:
        return saved
    return dataclasses.replace(wanted, first_step=step, epoch=saved.position(step).epoch)


def load(model_dir: str) -> Optional[InputProgress]:
    """Returns the progress of the runs before, or None; errors.UserError: the file is not from `save`."""
    path = os.path.join(model_dir, FILE)
    try:
        return config_json.from_json_dict(InputProgress, config_json.parse(files.read_text(path)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, LookupError, errors.UserError) as error:
        raise errors.UserError(
            f"{path}: is not the progress of a training in its data ({error}); restore the file, or delete "
            "it if batches, data and seed never changed"
        ) from error


def save(model_dir: str, progress: InputProgress) -> None:
    """Writes the progress, whole or not at all."""
    text = json.dumps(config_json.to_json_dict(progress), indent=1)
    files.write_text(os.path.join(model_dir, FILE), text)
