"""Which recording a record was made of, as the .jsonl beside its shard says (see items.py).

{"utterance": {"utterance_id": "u1", "audio": "/c/u1.wav", ...}, "stamp": [43218, ...], "variant": null}
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Iterable
from typing import Optional

from tfrecord_builder import errors, files


@dataclasses.dataclass(frozen=True)
class Recording:
    """A recording, or the part of it that an utterance is; the fields are arguments of audio.read_audio.

    Attributes:
      path: where it lay when the data was built.
      seconds: length of the part; None for all behind start_seconds.
      channel: from 0; None for the mean of all.
      num_bytes: of the file when the data was built; None where the build did not note it.
      is_augmented: whether the record was made of a copy with another speed, room, noise or volume, so that
        its features are not those of the recording.
    """

    path: str
    start_seconds: float = 0.0
    seconds: Optional[float] = None
    channel: Optional[int] = None
    num_bytes: Optional[int] = None
    is_augmented: bool = False


def path_of(shard_path: str) -> str:
    """Names the file of a shard's items."""
    return f"{os.path.splitext(shard_path)[0]}.jsonl"


def find(shard_path: str, utterance_id: str) -> Optional[Recording]:
    """Gives the recording of a record of a shard; None for text, and where the shard has no .jsonl.

    Raises:
      errors.UserError: a line of the .jsonl is not what the build wrote.
      OSError: the .jsonl cannot be read.
    """
    return find_all([shard_path], [utterance_id]).get(utterance_id)


def find_all(shard_paths: Iterable[str], utterance_ids: Collection[str]) -> dict[str, Recording]:
    """Gives utterance id -> recording of those that have one; raises as find does."""
    found, missing = {}, set(utterance_ids)
    for shard_path in shard_paths:
        path = path_of(shard_path)
        if not missing or not files.exists(path):
            continue
        with files.open_binary(path) as file:
            for number, line in enumerate(file, 1):
                utterance_id, recording = _read(path, number, line)
                if utterance_id in missing:
                    missing.discard(utterance_id)
                    found.update({utterance_id: recording} if recording else {})
                    if not missing:
                        break
    return found


def _read(path, number, line):
    try:
        parts = json.loads(line)
        utterance, stamp = parts["utterance"], parts["stamp"] or [None]
        if not utterance["audio"]:
            return utterance["utterance_id"], None
        part = (utterance["start_seconds"], utterance["seconds"], utterance["channel"])
        recording = Recording(utterance["audio"], *part, stamp[0], parts["variant"] is not None)
        return utterance["utterance_id"], recording
    except (ValueError, KeyError, TypeError) as error:
        raise errors.UserError(
            f"{path}: line {number} is no item ({type(error).__name__}: {error}), expected the JSON that the "
            "build wrote; copy or build the data again."
        ) from None
