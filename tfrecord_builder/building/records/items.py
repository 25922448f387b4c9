"""The items of a shard: labelled utterances, one per line of the .jsonl file beside the shard.

    {"utterance": {"utterance_id": "u1", "audio": "/c/u1.wav", "text": "一下", ...},
     "labels": {"transcript": "一下", "tokens": ["yi1", "xia4"], "characters": ["一", "下"]},
     "stamp": [43218, 1700000000000000000], "variant": null}

The file stays in the data directory and tells which recording a record was made from (see recordings.py). It
also has the utterances that were rejected while the shard was written.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder.augmentation import copies
from tfrecord_builder.data import manifest, recordings
from tfrecord_builder.labels import labelling
from tfrecord_builder.storage import files


@dataclasses.dataclass(frozen=True)
class Item:
    """A labelled utterance."""

    utterance: manifest.Utterance
    labels: labelling.Labels
    signature: Optional[tuple[int, int]] = None  # as of file_signature, when the recording was listed
    variant: Optional[copies.Variant] = None  # the augmentation; None for the recording as it is


def to_line(item: Item) -> str:
    """Returns an item as one line of JSON; bytes of a file name that are not UTF-8 are escaped."""
    parts = {
        "utterance": vars(item.utterance),
        "labels": vars(item.labels),
        "stamp": item.signature,
        "variant": item.variant and vars(item.variant),
    }
    return json.dumps(parts, ensure_ascii=False).encode("utf-8", "backslashreplace").decode() + "\n"


def from_json(parts: dict[str, Any]) -> Item:
    """Returns the item of a parsed line; raises KeyError or TypeError if it is not one of to_line."""
    labels = {name: tuple(v) if isinstance(v, list) else v for name, v in parts["labels"].items()}
    return Item(
        manifest.Utterance(**parts["utterance"]),
        labelling.Labels(**labels),
        tuple(parts["stamp"]) if parts["stamp"] else None,
        copies.Variant(**parts["variant"]) if parts["variant"] else None,
    )


def read(shard_path: str) -> Iterator[Item]:
    """Reads the items of a shard in their order; raises UserError or OSError as recordings.read_items."""
    return recordings.read_items(shard_path, from_json)


def file_signature(audio: Optional[str]) -> Optional[tuple[int, int]]:
    """Returns size in bytes and modification time in ns of a recording; None where there is none."""
    try:
        return audio and files.size_and_time(audio)
    except (FileNotFoundError, ValueError):  # the latter for a name that no file can have
        return None
    except OSError as error:
        if files.is_remote(audio) or not files.concerns_one_file(error):
            raise  # the disk or the store fails, not the recording
        return None
