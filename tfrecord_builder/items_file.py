"""The items of a shard, `<split>-00000-of-00016.jsonl` beside it: one JSON object a line, in its order.

    {"utterance": {"utterance_id": "u1", "audio": "/c/u1.wav", "text": "一下", ...},
     "labels": {"transcript": "一下", "tokens": ["yi1", "xia4"], "characters": ["一", "下"]},
     "stamp": [43218, 1700000000000000000]}

What was rejected while the shard was written is there too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from tfrecord_builder import errors, files, labels, manifest, plan


def path_of(shard_path: str) -> str:
    """Gives the path of the items of a shard."""
    return f"{os.path.splitext(shard_path)[0]}.jsonl"


def read(path: str) -> Iterator[plan.Item]:
    """Yields the items of a shard.

    Raises:
      UserError: a line is not as described above.
      OSError: the file cannot be read.
    """
    with files.open_binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield _to_item(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise errors.UserError(
                    f"{path}: line {number} is no item ({type(error).__name__}: {error}), expected the JSON "
                    "that the build wrote; copy or build the data again."
                ) from None


def _to_item(values: dict) -> plan.Item:
    found = values["labels"]
    return plan.Item(
        utterance=manifest.Utterance(**values["utterance"]),
        labels=labels.Labels(found["transcript"], tuple(found["tokens"]), tuple(found["characters"])),
        stamp=tuple(values["stamp"]) if values["stamp"] else None,
    )
