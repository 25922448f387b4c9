"""Time of training steps: seconds spent in them, and seconds that each waits for its input."""

from __future__ import annotations

import time

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


def time_input(features: dict, labels: dict) -> tuple[dict, dict, tf.Tensor]:
    """Returns features and labels as the model must take them, and the seconds that they took to arrive.

    The seconds are float64 []. The control dependencies keep a single thread from running the model before it
    reads the clock.
    """
    started = tf.timestamp()
    with tf.control_dependencies([*features.values(), *labels.values()]):
        arrived = tf.timestamp()
    with tf.control_dependencies([arrived]):
        given = ({name: tf.identity(value) for name, value in part.items()} for part in (features, labels))
        return (*given, arrived - started)
