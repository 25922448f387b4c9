"""Computes the position in the training data from the global step: the epoch, and the batch within it.

The epoch and the batch are the quotient and remainder of batches consumed / batches per epoch. If the
batches, data or seed differ from those of the previous run, the interrupted epoch starts again, and batches
are counted from its new start. The step and epoch of that start are stored in MODEL_DIR/input_progress.json.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import NamedTuple, Optional

from estimator_asr.inputs import buckets
from tfrecord_builder import errors
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

FILE = "input_progress.json"


class InputPosition(NamedTuple):
    """An epoch, and the index of the next batch in it."""

    epoch: int
    index: int


START = InputPosition(0, 0)


@dataclasses.dataclass(frozen=True)
class InputProgress:
    """A position in the data, counted in batches from the start of an epoch."""

    first_step: int  # global step at the start of the epoch from which batches are counted
    epoch: int  # number of the epoch that began at first_step
    order_sha256: str  # hash of everything that determines the order: data, seed, shuffling
    bucketing: buckets.Bucketing  # buckets and batch sizes
    batches_per_step: int  # batches per update of the weights

    @property
    def steps_per_epoch(self) -> float:
        return self.bucketing.batches_per_epoch / self.batches_per_step

    def position(self, step: int) -> InputPosition:
        """Returns the position of the first batch after a global step."""
        consumed = max(step - self.first_step, 0) * self.batches_per_step
        epochs, index = divmod(consumed, self.bucketing.batches_per_epoch)
        return InputPosition(self.epoch + epochs, index)

    def epochs_at(self, step: int) -> float:
        """Returns the (fractional) number of epochs completed at a global step."""
        return self.epoch + (step - self.first_step) / self.steps_per_epoch

    def step_at(self, epochs: float) -> float:
        """Returns the (fractional) global step at which `epochs` epochs are completed."""
        return self.first_step + (epochs - self.epoch) * self.steps_per_epoch


def resume(saved: Optional[InputProgress], step: int, wanted: InputProgress) -> InputProgress:
    """Returns the progress of a run that continues from a checkpoint at a global step.

    `saved` is the progress of earlier runs, or None. `wanted` is this run's progress, counted from epoch 0.
    If both have the same batches in the same order, `saved` is returned. Otherwise `wanted` is returned,
    counted from the start of the interrupted epoch.
    """
    if saved is None:
        return wanted
    moved = dataclasses.replace(wanted, first_step=saved.first_step, epoch=saved.epoch)
    if moved == saved and step >= saved.first_step:
        return saved
    return dataclasses.replace(wanted, first_step=step, epoch=saved.position(step).epoch)


def load(model_dir: str) -> Optional[InputProgress]:
    """Returns the progress of earlier runs, if any; raises errors.UserError if the file is damaged."""
    path = os.path.join(model_dir, FILE)
    try:
        return config_json.from_json_dict(InputProgress, config_json.parse(files.read_text(path)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, LookupError, errors.UserError) as error:
        raise errors.UserError(
            f"{path} is not a valid record of training progress ({error}); restore the file, or delete it "
            "if the batches, the data and the seed have never changed"
        ) from error


def save(model_dir: str, progress: InputProgress) -> None:
    """Writes the progress to a model directory atomically."""
    text = json.dumps(config_json.to_json_dict(progress), indent=1)
    files.write_text(os.path.join(model_dir, FILE), text)
