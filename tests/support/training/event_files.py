"""Scalars of event files."""

from __future__ import annotations

import pathlib

import tensorflow as tf


def read_scalars(path: pathlib.Path, tag: str) -> dict[int, float]:
    """Returns the values of a scalar by step; a later event file replaces an earlier one."""
    events = (
        event
        for file in sorted(path.glob("events.out.tfevents.*"))
        for event in tf.compat.v1.train.summary_iterator(str(file))
    )
    return {
        event.step: value.simple_value
        for event in events
        for value in event.summary.value
        if value.tag == tag
    }
