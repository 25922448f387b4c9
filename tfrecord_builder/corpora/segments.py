"""Which part of a recording an utterance is, as the columns of a table say it: seconds and a channel.

start  end   duration  channel
0.98   3.48            0
0.98         2.5
             2.5                (begins at 0)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Optional

from tfrecord_builder import errors

# What the columns are called, in lower case.
NAMES = {
    "start": ("start", "start_time", "begin", "begin_time", "offset"),
    "end": ("end", "end_time"),
    "duration": ("duration",),
    "channel": ("channel",),
}
EMPTY = "segment that ends where it begins or before"

_ROUNDING_SECONDS = 0.05  # tables have two decimals or more: end and duration may differ by so much
_CHANNELS = {"a": 0, "b": 1}  # of a telephone call; else a number from 0


@dataclasses.dataclass(frozen=True)
class Span:
    """A part of a recording: the arguments of audio.read_audio, and why it can be none (or nothing)."""

    start_seconds: float = 0.0
    seconds: Optional[float] = None
    channel: Optional[int] = None
    problem: str = ""


def read(where: str, row: Mapping[str, str]) -> Span:
    """Reads the part that a row describes; what is missing or empty is not given.

    Args:
      where: "<file>: line <number>", for messages.
      row: value by NAMES; other columns are ignored.

    Raises:
      UserError: a value is not a number of 0 or more, or end and duration contradict each other.
    """
    start = _read_seconds(where, row, "start") or 0.0
    end, duration = _read_seconds(where, row, "end"), _read_seconds(where, row, "duration")
    channel = _read_channel(where, row.get("channel", "").strip())
    if end is not None and duration is not None and abs(start + duration - end) > _ROUNDING_SECONDS:
        raise errors.UserError(
            f"{where}: start {start:g}, end {end:g} and duration {duration:g} contradict each other, "
            "expected end = start + duration in seconds; fix the line or remove one of the columns."
        )
    seconds = duration if end is None else end - start
    if seconds is not None and seconds <= 0:
        return Span(channel=channel, problem=EMPTY)
    return Span(start, seconds, channel)


def _read_seconds(where: str, row: Mapping[str, str], name: str) -> Optional[float]:
    value = row.get(name, "").strip()
    try:
        seconds = float(value) if value else None
    except ValueError:
        seconds = math.nan
    if seconds is not None and not 0 <= seconds < math.inf:
        raise errors.UserError(
            f"{where}: {name} is {value!a}, expected a number of seconds, 0 or more; fix the line."
        )
    return seconds


def _read_channel(where: str, value: str) -> Optional[int]:
    if value.isdecimal() and len(value) < 4:
        return int(value)
    if value and value.lower() not in _CHANNELS:
        raise errors.UserError(
            f"{where}: channel is {value!a}, expected a number from 0 (the first), A or B; fix the line."
        )
    return _CHANNELS.get(value.lower())
