"""The items of a shard: labelled utterances, one per line of the .jsonl file next to the shard.

    {"utterance": {"utterance_id": "u1", "audio": "/c/u1.wav", "text": "一下", ...},
     "labels": {"transcript": "一下", "tokens": ["yi1", "xia4"], "characters": ["一", "下"]},
     "stamp": [43218, 1700000000000000000], "variant": null}

The file stays in the data directory to show which recording each record was made from (see recordings.py).
It also contains the utterances that were rejected while the shard was written.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder.audio.augmentation import copies
from tfrecord_builder.data import manifest, recordings
from tfrecord_builder.labels import labelling
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files


@dataclasses.dataclass(frozen=True)
class LabelledUtterance:
    """An utterance or an augmented copy, with its labels."""

    utterance: manifest.Utterance
    labels: labelling.Labels
    signature: Optional[tuple[int, int]] = None  # file_signature of the recording when it was labelled
    variant: Optional[copies.Variant] = None  # the augmentation; None if not augmented


def to_line(item: LabelledUtterance) -> str:
    """Returns an item as one line of JSON; bytes in file names that are not UTF-8 are escaped."""
    parts = {
        "utterance": vars(item.utterance),
        "labels": vars(item.labels),
        "stamp": item.signature,
        "variant": item.variant and vars(item.variant),
    }
    return json.dumps(parts, ensure_ascii=False).encode("utf-8", "backslashreplace").decode() + "\n"


def from_json(parts: dict[str, Any]) -> LabelledUtterance:
    """Converts a parsed line to an item; raises KeyError or TypeError if to_line did not write the line."""
    labels = {name: tuple(v) if isinstance(v, list) else v for name, v in parts["labels"].items()}
    return LabelledUtterance(
        manifest.Utterance(**parts["utterance"]),
        labelling.Labels(**labels),
        tuple(parts["stamp"]) if parts["stamp"] else None,
        copies.Variant(**parts["variant"]) if parts["variant"] else None,
    )


def read(shard_path: str) -> Iterator[LabelledUtterance]:
    """Yields the items of a shard in file order; raises the same errors as recordings.read_items."""
    return recordings.read_items(shard_path, from_json)


def file_signature(audio: Optional[str]) -> Optional[tuple[int, int]]:
    """Returns (size in bytes, modification time in ns) of a recording; None if it does not exist."""
    try:
        return audio and files.size_and_time(audio)
    except (FileNotFoundError, ValueError):  # ValueError: no file can have this name
        return None
    except OSError as error:
        if urls.is_remote(audio) or not files.concerns_one_file(error):
            raise  # the disk or store failed, not only this file
        return None
