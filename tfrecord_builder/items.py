"""What goes into a shard, an utterance with its labels, and how it is written as a line of JSON."""

from __future__ import annotations

import dataclasses
import json

from tfrecord_builder import augmentation_plan, files, labels, manifest


@dataclasses.dataclass(frozen=True)
class Item:
    """An utterance and its labels.

    Attributes:
      stamp: bytes and time of the recording when it was listed; None for text and where it is missing.
      variant: how its sound is changed; None for what is as recorded.
    """

    utterance: manifest.Utterance
    labels: labels.Labels
    stamp: tuple[int, int] | None = None
    variant: augmentation_plan.Variant | None = None


def to_line(item: Item) -> str:
    """Writes an item as one line of JSON, in which an unprintable byte of a file name is escaped."""
    parts = {
        "utterance": vars(item.utterance),
        "labels": vars(item.labels),
        "stamp": item.stamp,
        "variant": item.variant and dataclasses.asdict(item.variant),
    }
    return json.dumps(parts, ensure_ascii=False).encode("utf-8", "backslashreplace").decode() + "\n"


def from_line(line: str) -> Item:
    """Reads what to_line wrote."""
    parts = json.loads(line)
    found = {name: tuple(v) if isinstance(v, list) else v for name, v in parts["labels"].items()}
    return Item(
        manifest.Utterance(**parts["utterance"]),
        labels.Labels(**found),
        parts["stamp"] and tuple(parts["stamp"]),
        parts["variant"] and augmentation_plan.Variant(**parts["variant"]),
    )


def stamp(audio: str | None) -> tuple[int, int] | None:
    """Gives bytes and time of a recording; None where there is none."""
    try:
        return audio and files.size_and_time(audio)
    except (OSError, ValueError):  # the latter for a name that no file can have
        return None
