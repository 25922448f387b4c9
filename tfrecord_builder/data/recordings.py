"""Finds the recording of each record in the .jsonl file that building/sharding.py writes for each shard.

A line of the file:

{"utterance": {"utterance_id": "u1", "audio": "/c/u1.wav", ...}, "stamp": [43218, ...], "variant": null}
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Optional, TypeVar

from tfrecord_builder import errors
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

Item = TypeVar("Item")
_PLAYABLE = ("http://", "https://", "file://")


@dataclasses.dataclass(frozen=True)
class Recording:
    """An audio file, or a segment of an audio file, that contains an utterance.

    Attributes:
        path: path of the file at the time of the build.
        start_seconds: start of the segment.
        seconds: duration of the segment; None to read to the end of the file.
        channel: number of the utterance's channel, starting at 0; None for the mean of all channels.
        num_bytes: size of the file when the data were built; None if unknown.
        is_augmented: True if the record is an augmented copy.
    """

    path: str
    start_seconds: float = 0.0
    seconds: Optional[float] = None
    channel: Optional[int] = None
    num_bytes: Optional[int] = None
    is_augmented: bool = False


def url(audio: str, start_seconds: float, seconds: Optional[float]) -> str:
    """Returns a URL that plays a file or segment in a browser; empty if browsers cannot open the file."""
    if "://" in audio and not audio.startswith(_PLAYABLE):
        return ""
    whole = audio if "://" in audio else pathlib.Path(os.path.abspath(audio)).as_uri()
    end = "" if seconds is None else f",{start_seconds + seconds:g}"
    return f"{whole}#t={start_seconds:g}{end}" if start_seconds or end else whole


def path_of(shard_path: str) -> str:
    """Returns the path of a shard's .jsonl file."""
    return f"{os.path.splitext(shard_path)[0]}.jsonl"


def find_all(shard_paths: Iterable[str], utterance_ids: Collection[str]) -> dict[str, Recording]:
    """Maps utterance ids to recordings; omits text-only utterances and shards without a .jsonl file.

    Raises UserError or OSError, as read_items does.
    """
    recordings, missing = {}, set(utterance_ids)
    for shard_path in shard_paths:
        if not missing or not files.exists(path_of(shard_path)):
            continue
        for utterance_id, recording in read_items(shard_path, _parse):
            if utterance_id in missing:
                missing.discard(utterance_id)
                if recording:
                    recordings[utterance_id] = recording
                if not missing:
                    break
    return recordings


def read_all(shard_paths: Iterable[str]) -> dict[str, Recording]:
    """Maps the utterance ids of all records to recordings; otherwise the same as find_all."""
    known = (path for path in shard_paths if files.exists(path_of(path)))
    items = (item for path in known for item in read_items(path, _parse))
    return {utterance_id: recording for utterance_id, recording in items if recording}


def read_items(shard_path: str, parse: Callable[[dict], Item]) -> Iterator[Item]:
    """Yields parse(item) for each line of a shard's .jsonl file; an invalid line raises UserError."""
    path = path_of(shard_path)
    with files.open_binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield parse(config_json.parse(line))
            except (ValueError, KeyError, TypeError) as error:
                raise errors.UserError(
                    f"{path}: line {number} is not a valid item ({type(error).__name__}: {error}); "
                    "copy or build the data again."
                ) from None


def _parse(parts: dict) -> tuple[str, Optional[Recording]]:
    utterance, (num_bytes, *_) = parts["utterance"], parts["stamp"] or [None]
    if not utterance["audio"]:
        return utterance["utterance_id"], None
    segment = (utterance["start_seconds"], utterance["seconds"], utterance["channel"])
    recording = Recording(utterance["audio"], *segment, num_bytes, parts["variant"] is not None)
    return utterance["utterance_id"], recording
