"""Lhotse's cuts and supervisions as utterances, one per supervision. The fields that are read:

    {"id": "a-0", "type": "MonoCut", "start": 0.5, "duration": 2.5, "channel": 0, "supervisions": [
     {"id": "a", "start": 0.0, "duration": 2.5, "channel": 0, "text": "你好", "speaker": "s1"}],
     "recording": {"sources": [{"type": "file", "channels": [0], "source": "/data/a.wav"}],
     "transforms": [{"name": "Speed", "kwargs": {"factor": 0.9}}]}}

A supervision's start is relative to its cut's, and both are times after the transforms. A cut without
supervisions is an utterance without a transcript. Speed and volume are applied as Lhotse would; Resample
needs nothing. A padded cut is read without its padding. Anything else that Lhotse can describe (mixtures,
other transforms, sources other than a file or a command that only decodes one, some but not all channels of
a file) is rejected, cut by cut.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors, manifest
from tfrecord_builder.corpora import json_lines, kaldi_commands, layout

_SOURCES = "expected file or command that only decodes one"
_TOLERANCE_SECONDS = 0.1  # by which rounding may move a supervision beyond its cut
_SPEEDS, _VOLUMES = (0.5, 2.0), (0.001, 1000.0)  # the ranges of --speed_perturb_factors and --volume_db

Fields = dict[str, Any]


class _Unsupported(Exception):
    """A cut uses what is not supported; str() is the reason for the rejection."""


def list_cut(where: str, path: str, cut: Fields, split: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of a cut; several are named <cut>-<supervision>.

    Args:
        where: the start of every message.
        path: the file of cuts.
        cut: the JSON object.
        split: "train", "dev" or "test".

    Raises:
        errors.UserError: a field has another type than Lhotse writes.
    """
    name = json_lines.get_text(where, cut, "id")
    try:
        cut = _unpad(where, cut)
    except _Unsupported as reason:
        yield manifest.Utterance(name, path, "", "", "", split, problem=str(reason))
        return
    supervisions = _get_objects(where, cut, "supervisions") or [{}]
    for number, supervision in enumerate(supervisions, 1):
        part = json_lines.get_text(where, supervision, "id", str(number))
        full_name = name if len(supervisions) == 1 else f"{name}-{part}"
        yield _make_utterance(where, path, full_name, cut, supervision, split)


def make_utterance(
    where: str, path: str, recording: Optional[Fields], supervision: Fields, split: str
) -> manifest.Utterance:
    """Returns the utterance of a supervision of a recording, which is None if it is missing."""
    name = json_lines.get_text(where, supervision, "id")
    cut = {"recording": recording, "channel": supervision.get("channel", 0)}
    return _make_utterance(where, path, name, cut, supervision, split)


def _make_utterance(
    where: str, path: str, name: str, cut: Fields, supervision: Fields, split: str
) -> manifest.Utterance:
    speaker, text = (json_lines.get_text(where, supervision, each, "") for each in ("speaker", "text"))
    try:
        sound = _find_sound(where, os.path.dirname(path), cut, supervision)
    except _Unsupported as reason:
        return manifest.Utterance(name, path, speaker, text, "", split, problem=str(reason))
    return manifest.Utterance(utterance_id=name, speaker=speaker, text=text, pinyin="", split=split, **sound)


def _unpad(where: str, cut: Fields) -> Fields:
    """Returns the cut itself, or the only one of a MixedCut that is not padding."""
    if cut.get("type", "MonoCut") != "MixedCut":
        return cut
    tracks = _get_objects(where, cut, "tracks")
    found = [track for track in tracks if _type_of_track(track) != "PaddingCut"]
    if len(found) != 1 or cut.get("transforms") or not isinstance(found[0].get("cut"), dict):
        raise _Unsupported("Lhotse MixedCut of several sounds, expected MonoCut, MultiCut or a padded one")
    return found[0]["cut"]


def _type_of_track(track: Fields) -> Any:
    cut = track.get("cut")
    return cut.get("type", track.get("type")) if isinstance(cut, dict) else None


def _find_sound(where: str, directory: str, cut: Fields, supervision: Fields) -> dict[str, Any]:
    """Returns the fields of an Utterance that describe its audio."""
    recording = cut.get("recording")
    if not isinstance(recording, dict):
        raise _Unsupported("Lhotse cut or supervision without a recording, expected one with its sources")
    speed, gain = _read_transforms(where, recording)
    start, seconds = _find_part(where, cut, supervision)
    source, channel = _find_source(where, recording, _find_channels(cut, supervision))
    return {
        "audio": layout.resolve(directory, source),
        "start_seconds": start * speed,
        "seconds": seconds and seconds * speed,
        "channel": channel,
        "speed": speed,
        "volume_db": 20 * math.log10(gain),
    }


def _find_part(where: str, cut: Fields, supervision: Fields) -> tuple[float, Optional[float]]:
    """Returns start and duration of the supervision, relative to the start of the recording."""
    cut_start = json_lines.get_seconds(where, cut, "start") or 0.0
    cut_seconds = json_lines.get_seconds(where, cut, "duration")
    start = json_lines.get_seconds(where, supervision, "start", is_signed=True) or 0.0
    seconds = json_lines.get_seconds(where, supervision, "duration")
    limit = math.inf if cut_seconds is None else cut_seconds
    end = limit if seconds is None else start + seconds
    if start < -_TOLERANCE_SECONDS or end > limit + _TOLERANCE_SECONDS:
        raise _Unsupported("Lhotse supervision that extends beyond its cut, expected one within")
    start, end = max(start, 0.0), min(end, limit)
    return cut_start + start, None if math.isinf(end) else round(max(end - start, 0.0), 6)


def _find_channels(cut: Fields, supervision: Fields) -> list[Any]:
    """Returns the cut's channels, or those of them that the supervision names."""
    channels = _as_list(cut.get("channel", 0))
    named = channels if supervision.get("channel") is None else _as_list(supervision["channel"])
    if not all(channel in channels for channel in named):
        raise _Unsupported("Lhotse supervision of a channel that its cut lacks, expected one of the cut's")
    return named


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _find_source(where: str, recording: Fields, channels: list[Any]) -> tuple[str, Optional[int]]:
    """Returns the file that has the channels, and which of the file's channels to take; None for all."""
    for source in _get_objects(where, recording, "sources"):
        there = source.get("channels")
        if not isinstance(there, list):
            raise errors.UserError(
                f"{where}: a source has no channels, expected a list; write the cuts again."
            )
        if not channels or not all(channel in there for channel in channels):
            continue
        path, channel = _find_file(where, source)
        if len(there) == 1 and source["type"] == "command":  # it may select a channel, or mix all of them
            return path, channel
        if len(channels) == 1:
            return path, there.index(channels[0])
        if len(channels) == len(there):
            return path, None
    raise _Unsupported("Lhotse channels that are some of a file's, expected one or all")


def _find_file(where: str, source: Fields) -> tuple[str, Optional[int]]:
    """Returns the file that a source reads, and the channel of it that a command takes."""
    kind, found = source.get("type"), None
    if kind == "file":
        found = json_lines.get_text(where, source, "source"), None
    elif kind == "command":
        found = kaldi_commands.find_file(json_lines.get_text(where, source, "source"))
    if not found:
        raise _Unsupported(f"Lhotse audio source of type {kind!a}, {_SOURCES}")
    return found


def _read_transforms(where: str, recording: Fields) -> tuple[float, float]:
    """Returns the speed factor and the volume factor of the recording's transforms together."""
    speed = gain = 1.0
    for transform in _get_objects(where, recording, "transforms"):
        name = transform.get("name")
        if name == "Speed":
            speed *= _get_factor(transform, *_SPEEDS)
        elif name == "Volume":
            gain *= _get_factor(transform, *_VOLUMES)
        elif name != "Resample":
            raise _Unsupported(f"Lhotse transform {name!a}, expected Speed, Volume or Resample")
    return speed, gain


def _get_factor(transform: Fields, lowest: float, highest: float) -> float:
    kwargs = transform.get("kwargs")
    factor = kwargs.get("factor") if isinstance(kwargs, dict) else None
    if not isinstance(factor, (int, float)) or not lowest <= factor <= highest:
        name = transform["name"]
        raise _Unsupported(f"Lhotse transform {name} with a factor outside {lowest:g} to {highest:g}")
    return float(factor)


def _get_objects(where: str, fields: Fields, name: str) -> list[Fields]:
    found = fields.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise errors.UserError(
            f"{where}: {name} is not a list of objects, expected one; write the cuts again."
        )
    return found
