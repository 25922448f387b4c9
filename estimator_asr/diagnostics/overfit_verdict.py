"""Explains the result of an overfit test: steps needed, or the likely cause of failure and next command."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.experiment import task_spec
from estimator_asr.monitoring import advice

# A loss that still falls by this fraction in the second half of the steps needs more steps.
_STILL_FALLING = 0.1


class Result(NamedTuple):
    """Result of an overfit test."""

    spec: task_spec.TaskSpec
    batches: Sequence[tuple]  # pairs (features, labels) of dicts of numpy arrays
    metrics: Sequence[Mapping[str, float]]  # of every step, by tag
    seconds: float  # time spent
    is_learned: bool  # whether all batches are memorised

    @property
    def losses(self) -> list[float]:
        """Loss per label of every step."""
        return [values["avg-loss"] for values in self.metrics]

    @property
    def error_rate(self) -> float:
        """Decoded error rate of the last step."""
        return self.metrics[-1][self.spec.error_rate]


def describe(result: Result, train_command: str, base_rate: float, data_dir: str) -> str:
    """Returns the explanation as one sentence; its advice adds flags to the command of the training.

    The base_rate is --learning_rate; data_dir is comma separated.
    """
    num_utterances = sum(len(labels[result.spec.labels[1]]) for _, labels in result.batches)
    steps = f"{result.seconds:.0f} s ({len(result.metrics)} steps)"
    if result.is_learned:
        return (
            f"{num_utterances} utterances memorised after {steps}: loss {result.losses[-1]:.3f} per label, "
            "no errors; model, loss and optimizer can learn. Wrong labels would be memorised too: check "
            f"that a record and its labels match with {advice.show(data_dir)}"
        )
    cause = _find_cause(result, train_command, base_rate, data_dir)
    return (
        f"{num_utterances} utterances not memorised after {steps}, loss {result.losses[-1]:.3g} per label, "
        f"error rate {100 * result.error_rate:.0f} %; {cause}"
    )


def _find_cause(result, train_command, base_rate, data_dir):
    slower, faster = (f"{train_command} --learning_rate={base_rate * factor:.2g}" for factor in (0.1, 3))
    first, middle, last = map(np.mean, _tenths(result.losses))
    key, num_contradictions = result.spec.features[0], count_contradictions(result)
    is_finite = all(np.isfinite(features[key]).all() for features, _ in result.batches)
    too_long = result.metrics[-1].get("too-long-fraction", 0.0)
    causes = (
        (not is_finite, f"features contain NaN or Inf; find them with {advice.verify(data_dir)}"),
        (
            num_contradictions,
            f"{num_contradictions} of them have the same input as another one but other labels; inspect a "
            f"record with {advice.show(data_dir)}",
        ),
        (
            too_long,
            f"{100 * too_long:.0f} % of them have more labels than frames after subsampling; list the worst "
            f"with {advice.doctor(data_dir)}",
        ),
        (not math.isfinite(last), f"the loss is NaN or Inf: the learning rate is too high; try {slower}"),
        (last >= first, f"the loss rises: the learning rate is too high; try {slower}"),
        (
            last < (1 - _STILL_FALLING) * middle,
            f"the loss still falls: the learning rate or the time limit is too low; try {faster}",
        ),
        (True, f"the loss is constant: the learning rate is too high or the model too small; try {slower}"),
    )
    return next(sentence for is_cause, sentence in causes if is_cause)


def _tenths(losses):
    """Returns the first tenth, the tenth before the middle, and the last tenth."""
    size = max(1, len(losses) // 10)
    middle = max(size, len(losses) // 2)
    return losses[:size], losses[middle - size : middle], losses[-size:]


def count_contradictions(result: Result) -> int:
    """Returns how many utterances have the input of an earlier one, but other labels."""
    labels_by_input, count = {}, 0
    for features, labels in result.batches:
        pairs = zip(_rows(features, *result.spec.features), _rows(labels, *result.spec.labels))
        count += sum(labels_by_input.setdefault(key, label) != label for key, label in pairs)
    return count


def _rows(values, name, number):
    """Returns each row without padding, as bytes."""
    return [np.ascontiguousarray(row[:count]).tobytes() for row, count in zip(values[name], values[number])]
