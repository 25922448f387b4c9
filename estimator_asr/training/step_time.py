"""Time of training steps: seconds spent in them, and seconds that each waits for its input."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple, Optional

import tensorflow as tf


class Clock:
    """Seconds spent in training steps: stands still while a checkpoint is written and evaluated."""

    def __init__(self, now=time.monotonic):
        self._now = now
        self._seconds = 0.0
        self._running_since = None

    @property
    def seconds(self) -> float:
        running = 0.0 if self._running_since is None else self._now() - self._running_since
        return self._seconds + running

    def pause(self) -> None:
        self._seconds, self._running_since = self.seconds, None

    def resume(self) -> None:
        if self._running_since is None:
            self._running_since = self._now()


class TimedInput(NamedTuple):
    """The input of a step, and the seconds from the start of the step until it arrived, float64 []."""

    features: Mapping[str, tf.Tensor]
    labels: Mapping[str, tf.Tensor]
    wait: Optional[tf.Tensor] = None


def time_input(features: Mapping[str, tf.Tensor], labels: Mapping[str, tf.Tensor]) -> TimedInput:
    """Returns the input as the model must take it, with the time that it took to arrive.

    The control dependencies keep a single thread from running the model before it reads the clock.

    Args:
        features, labels: of input_fn, by name, any dtypes and shapes.
    """
    started = tf.timestamp()
    with tf.control_dependencies([*features.values(), *labels.values()]):
        arrived = tf.timestamp()
    with tf.control_dependencies([arrived]):
        timed = ({name: tf.identity(value) for name, value in given.items()} for given in (features, labels))
        return TimedInput(*timed, arrived - started)
