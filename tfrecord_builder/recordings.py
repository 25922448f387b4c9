"""Which recording a record was made of, by the file of items beside its shard (see items.py)."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import NamedTuple, Optional

from tfrecord_builder import errors, files


class Recording(NamedTuple):
    """A recording, or a part of it, as audio.read_audio takes it.

    Attributes:
      audio: path of the file.
      start_seconds: where the utterance begins.
      seconds: how long it is; None to the end.
      channel: the channel to take, from 0; None for the mean of all.
    """

    audio: str
    start_seconds: float
    seconds: Optional[float]
    channel: Optional[int]


def path_of(shard_path: str) -> str:
    """Names the file of a shard's items."""
    return f"{os.path.splitext(shard_path)[0]}.jsonl"


def find(shard_path: str, utterance_ids: Collection[str]) -> dict[str, Recording]:
    """Gives the recordings of some utterances of a shard, by id.

    An utterance without a recording is left out; so are all of a shard that has no items beside it.

    Raises:
      UserError: a line is no item.
      OSError: the file cannot be read.
    """
    path, found = path_of(shard_path), {}
    if not files.exists(path):
        return found
    with files.open_binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                utterance = json.loads(line)["utterance"]
                if utterance["utterance_id"] in utterance_ids and utterance["audio"]:
                    values = {key: utterance[key] for key in Recording._fields}
                    found[utterance["utterance_id"]] = Recording(**values)
            except (ValueError, KeyError, TypeError) as error:
                raise errors.UserError(
                    f"{path}: line {number} is no item ({type(error).__name__}: {error}), expected the JSON "
                    "that the build wrote; copy or build the data again."
                ) from None
    return found
