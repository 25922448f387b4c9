"""Reads the segment (in seconds) and the channel of a recording from the columns of a table row. Examples:

start  end   duration  channel
0.98   3.48            0
0.98         2.5
             2.5                (starts at 0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, Optional

from tfrecord_builder import errors

# Accepted column names, in lower case with underscores.
NAMES = {
    "start": ("start", "start_time", "begin", "begin_time", "offset", "开始", "开始时间", "起始时间"),
    "end": ("end", "end_time", "结束", "结束时间", "终止时间"),
    "duration": ("duration", "时长", "持续时间"),
    "channel": ("channel", "声道", "通道"),
    "stop": ("stop",),  # SpeechBrain: start and stop are in samples
    "options": ("wav_opts",),  # older SpeechBrain tables: values such as start:10000 stop:26000
}
EMPTY = "segment ends at or before its start"
SAMPLES = "segment times are in samples: set start, and end or duration, in seconds"

_ROUNDING_SECONDS = 0.05  # accepted difference between end and start + duration, because times are rounded
_CHANNELS = {"a": 0, "b": 1}  # sides of a telephone call; other channels are numbered from 0
_RATES = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000)


class Segment(NamedTuple):
    """A segment of a recording; the fields have the same meaning as in manifest.Utterance."""

    start_seconds: float = 0.0
    seconds: Optional[float] = None
    channel: Optional[int] = None
    problem: str = ""


def read(where: str, row: Mapping[str, str]) -> Segment:
    """Reads the segment that the columns of a row describe; missing columns count as empty.

    Raises errors.UserError if a value is negative or not a number, or if end and duration contradict each
    other.
    """
    if not row.keys() & NAMES.keys():
        return Segment()
    start = _read_seconds(where, row, "start") or 0.0
    end, duration = _read_seconds(where, row, "end"), _read_seconds(where, row, "duration")
    channel = _read_channel(where, row.get("channel", "").strip())
    if end is not None and duration is not None and abs(start + duration - end) > _ROUNDING_SECONDS:
        raise errors.UserError(
            f"{where}: start {start:g}, end {end:g} and duration {duration:g} contradict each other: "
            "end must be start + duration, in seconds; fix the line or remove one of the columns."
        )
    seconds = duration if end is None else end - start
    if seconds is not None and seconds <= 0:
        return Segment(channel=channel, problem=EMPTY)
    stop = row.get("stop", "").strip()
    if (stop and (start or seconds is None)) or "start:" in row.get("options", ""):
        return _read_samples(start, stop, seconds, channel)
    return Segment(start, seconds, channel)


def _read_samples(start: float, stop: str, seconds: Optional[float], channel: Optional[int]) -> Segment:
    """Converts a segment's start from samples to seconds if `stop` and `seconds` imply the sample rate."""
    if seconds and stop.isdecimal():
        rate = (int(stop) - start) / seconds
        nearest = min(_RATES, key=lambda candidate: abs(rate / candidate - 1))
        if abs(rate / nearest - 1) < 0.01:
            return Segment(start / nearest, seconds, channel)
    return Segment(problem=SAMPLES)


def _read_seconds(where: str, row: Mapping[str, str], name: str) -> Optional[float]:
    value = row.get(name, "").strip()
    try:
        seconds = float(value) if value else None
    except ValueError:
        seconds = math.nan
    if seconds is not None and not 0 <= seconds < math.inf:
        raise errors.UserError(
            f"{where}: {name} is {value!r}, expected a number of seconds, 0 or more; fix the line."
        )
    return seconds


def _read_channel(where: str, value: str) -> Optional[int]:
    if value.isdecimal() and len(value) < 4:
        return int(value)
    if value and value.lower() not in _CHANNELS:
        raise errors.UserError(
            f"{where}: channel is {value!r}, expected A, B or a number (the first is 0); fix the line."
        )
    return _CHANNELS.get(value.lower())
