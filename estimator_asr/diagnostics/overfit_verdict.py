"""What came of learning a few batches by heart, in a sentence: how fast, or why not and what to run next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr import task_spec
from estimator_asr.monitoring import advice, alarms, observations

# A loss that still falls by this share in the second half of the steps is on its way.
_ON_ITS_WAY = 0.1


class Course(NamedTuple):
    """How the learning went.

    Attributes:
        spec: of the model.
        batches: pairs (features, labels) of dicts of numpy arrays.
        figures: scalars of every step, by tag.
        seconds: spent.
        is_learned: whether all is known by heart.
    """

    spec: task_spec.TaskSpec
    batches: Sequence[tuple]
    figures: Sequence[Mapping[str, float]]
    seconds: float
    is_learned: bool

    @property
    def error_rate(self) -> float:
        return self.figures[-1][self.spec.error_rate]

    @property
    def losses(self) -> list[float]:
        return [values["avg-loss"] for values in self.figures]

    def mean(self, tag: str) -> float:
        """Returns the mean of a metric over the last steps; 0 if there is no such metric."""
        return observations.mean_metrics(self.figures).get(tag, 0.0)


def describe(course: Course, train_command: str, base_rate: float, data_dir: str) -> str:
    """Returns the sentence.

    Args:
        course: how it went.
        train_command: as it was given, to be called again with another flag behind it.
        base_rate: its --learning_rate.
        data_dir: comma separated.
    """
    num_utterances = sum(len(labels[course.spec.labels[1]]) for _, labels in course.batches)
    spent = f"{course.seconds:.0f} s ({len(course.figures)} steps)"
    if course.is_learned:
        return (
            f"{num_utterances} utterances are known by heart after {spent}: loss {course.losses[-1]:.3f} per "
            "label, no errors: model, loss and optimizer can learn; labels of other recordings would be "
            f"known as well, so look whether a record's belong to it: {advice.show(data_dir)}"
        )
    causes = (
        _odd_data(course, data_dir),
        _not_a_number(course, train_command, base_rate),
        _no_way(course, train_command, base_rate),
    )
    return (
        f"{num_utterances} utterances are not known by heart after {spent}, loss {course.losses[-1]:.3g} per "
        f"label, error rate {100 * course.error_rate:.0f} %; {next(filter(None, causes))}"
    )


def progress(figures: Sequence[Mapping[str, float]], error_rate: str, seconds_left: float) -> str:
    """Returns a line on how it goes."""
    last = figures[-1]
    return (
        f"overfit: step {len(figures)}  loss {last['avg-loss']:.3f}  "
        f"error rate {100 * last[error_rate]:.1f} %  at most {max(seconds_left, 0):.0f} s left"
    )


def contradictions(course: Course) -> int:
    """Returns how many utterances have the input of an earlier one, but other labels."""
    said, count = {}, 0
    for features, labels in course.batches:
        inputs = _rows(features, *course.spec.features)
        for key, label in zip(inputs, _rows(labels, *course.spec.labels)):
            count += said.setdefault(key, label) != label
    return count


def _rows(values, name, number):
    """Each row as far as it counts, as bytes."""
    return [np.ascontiguousarray(row[:count]).tobytes() for row, count in zip(values[name], values[number])]


def _odd_data(course, data_dir) -> Optional[str]:
    number = contradictions(course)
    if not all(np.isfinite(features[course.spec.features[0]]).all() for features, _ in course.batches):
        return f"features hold values that are no numbers; find them with {advice.verify(data_dir)}"
    if number:
        return (
            f"{number} of them have the same input as another one but other labels, which nothing can learn; "
            f"look at a record with {advice.show(data_dir)}"
        )
    if course.mean("too-long-fraction") > 0:
        return (
            f"{100 * course.mean('too-long-fraction'):.0f} % of them have more labels than frames after "
            f"subsampling; list the worst with {advice.doctor(data_dir)}"
        )
    return None


def _not_a_number(course, again, base_rate) -> Optional[str]:
    if math.isfinite(course.losses[-1]):
        return None
    return (
        "the loss is NaN or Inf, so the learning rate is too high; try a tenth of it: "
        f"{again} --learning_rate={base_rate / 10:.2g}"
    )


def _no_way(course, again, base_rate) -> str:
    losses = course.losses
    first, half, last = (np.mean(part) for part in _parts(losses))
    slower, faster = (f"{again} --learning_rate={base_rate * factor:.2g}" for factor in (0.1, 3))
    if course.mean("gradient-zero-fraction") >= alarms.ZERO_FRACTION:
        return f"nearly all gradients are zero, so nothing is learned; try a tenth of the rate: {slower}"
    if last >= first:
        return f"the loss rises, so the learning rate is too high; try a tenth of it: {slower}"
    if last < (1 - _ON_ITS_WAY) * half:
        return f"the loss still falls, so the learning rate is too low or the time too short; try: {faster}"
    if course.mean("blank-fraction") >= alarms.BLANK_FRACTION:
        return (
            "all frames are blank, so the labels do not belong to the audio or the learning rate is far off; "
            f"try a tenth of it: {slower}"
        )
    if course.error_rate == 0:
        part = max(("ctc-loss", "decoder-loss"), key=course.mean)
        return f"all is decoded right but {part} stays at {course.mean(part):.2g}; try more time or: {slower}"
    return f"the loss stands still, so the learning rate is too high or the model too small; try: {slower}"


def _parts(losses):
    """The first tenth, the tenth that ends in the middle, and the last tenth."""
    size = max(1, len(losses) // 10)
    middle = max(size, len(losses) // 2)
    return losses[:size], losses[middle - size : middle], losses[-size:]
