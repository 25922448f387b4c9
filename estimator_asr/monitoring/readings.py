"""What the alarms look at: figures of recent steps and evaluations, and what is known of the training."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Means are taken, and figures have to agree, over so many readings.
IN_A_ROW = 5
# Fewer labels than that say nothing about their form.
_LABELS = 10


class Context(NamedTuple):
    """What the rules know of the training.

    Attributes:
        train_command: as it was given.
        model_dir, data_dir: for the commands that follow; data_dir comma separated.
        error_rate: tag of the decoded error rate.
        warmup_steps: while the learning rate rises.
        max_steps: where training ends.
        base_rate: --learning_rate.
        peak_rate: learning rate at the end of the warm-up.
        constant_loss_steps: patience.
    """

    train_command: str
    model_dir: str
    data_dir: str
    error_rate: str
    warmup_steps: int
    max_steps: int
    base_rate: float
    peak_rate: float
    constant_loss_steps: int

    @property
    def doctor_command(self) -> str:
        return doctor_command(self.data_dir, self.model_dir)

    @property
    def show_command(self) -> str:
        return show_command(self.data_dir)

    @property
    def verify_command(self) -> str:
        return verify_command(self.data_dir)

    @property
    def evaluate_command(self) -> str:
        return _command(
            "estimator_asr.evaluate",
            f"--model_dir={self.model_dir}",
            f"--data_dir={self.data_dir}",
            "--split=dev",
            f"--output_dir={self._beside('report')}",
        )

    @property
    def overfit_command(self) -> str:
        return f"{self.train_command} --overfit_batches=1"

    @property
    def slower_command(self) -> str:
        """A new model at a third of the learning rate."""
        rate = f"{self.base_rate / 3:.2g}"
        return self.new_model_command(f"rate{rate}", f"--learning_rate={rate}")

    def new_model_command(self, name: str, flag: str) -> str:
        """The training again with a flag more, in a directory beside that ends in the name."""
        return f"{self.train_command} {shlex.join([f'--model_dir={self._beside(name)}', flag])}"

    def _beside(self, name):
        return f"{self.model_dir.rstrip('/')}-{name}"

    @property
    def span(self) -> int:
        """Steps over which a loss has to fall: in a long training it falls more slowly."""
        return max(self.constant_loss_steps, self.max_steps // 20)

    @property
    def settled_step(self) -> int:
        """From here on a model writes something: the plateau at blanks alone is over in healthy trainings."""
        return self.warmup_steps + min(4 * self.constant_loss_steps, self.max_steps // 3)

    @property
    def late_step(self) -> int:
        """From here on a model writes about as much as is said."""
        return self.warmup_steps + min(10 * self.constant_loss_steps, self.max_steps // 2)


def doctor_command(data_dir: str, model_dir: str = "") -> str:
    """Returns how data (comma separated) and model are looked at."""
    model = [f"--model_dir={model_dir}"] if model_dir else []
    return _command("estimator_asr.doctor", f"--data_dir={data_dir}", *model)


def show_command(data_dir: str) -> str:
    """Returns how a record of the first of the data directories, comma separated, is shown."""
    return _command("tfrecord_builder.show", f"--data_dir={data_dir.split(',')[0]}")


def verify_command(data_dir: str) -> str:
    """Returns how all records are checked; data_dir comma separated."""
    return _command("tfrecord_builder.verify", f"--data_dir={data_dir}")


def _command(*words):
    return shlex.join(["python", "-m", *words])


class Reading(NamedTuple):
    """A training step that was looked at.

    Attributes:
        step: its number.
        figures: by the tags of TensorBoard.
        losses: per label, of this step and those since the reading before.
        label_form: what label_form() says.
    """

    step: int
    figures: Mapping[str, float]
    losses: tuple = ()
    label_form: str = ""


class Evaluation(NamedTuple):
    """Figures on dev, and the means of the training readings before."""

    step: int
    train: Mapping[str, float]
    dev: Mapping[str, float]


def label_form(ids, num_ids) -> str:
    """Returns "one-hot" or "equal" where labels have that form instead of token ids, else "".

    Args:
        ids: int [batch, max_ids]; ids at or beyond num_ids are ignored.
        num_ids: int [batch].
    """
    rows = [[int(value) for value in row[:count]] for row, count in zip(ids, num_ids) if count > 0]
    values = [value for row in rows for value in row]
    if len(values) < _LABELS or len(rows) < 2:
        return ""
    if set(values) == {0, 1} and all(sum(row) == 1 for row in rows):
        return "one-hot"
    return "equal" if len(set(values)) == 1 else ""


def mean_figures(readings: Sequence[Reading]) -> dict[str, float]:
    """Returns the mean of each figure of the last readings."""
    last = [reading.figures for reading in readings[-IN_A_ROW:]]
    tags = set.intersection(*(set(figures) for figures in last)) if last else ()
    return {tag: sum(figures[tag] for figures in last) / len(last) for tag in tags}


def last(readings: Sequence[Reading], tag: str, count: int, after: int = -1) -> list[float]:
    """Returns the figure in the last `count` readings after a step; [] if not so many have it."""
    late = [reading for reading in readings if reading.step > after][-count:]
    values = [reading.figures[tag] for reading in late if tag in reading.figures]
    return values if len(values) == count else []


def window_means(readings: Sequence[Reading], num_steps: int) -> list[tuple[int, float]]:
    """Returns last step and mean loss of every run of readings that just holds num_steps losses."""
    means, begin = [], 0
    counts = [0, *itertools.accumulate(len(reading.losses) for reading in readings)]
    sums = [0.0, *itertools.accumulate(sum(reading.losses) for reading in readings)]
    for end in range(1, len(readings) + 1):
        while counts[end] - counts[begin + 1] >= num_steps:
            begin += 1
        if counts[end] - counts[begin] >= num_steps:
            means.append((readings[end - 1].step, (sums[end] - sums[begin]) / (counts[end] - counts[begin])))
    return means
