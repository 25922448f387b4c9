"""What a server said of a file when its first byte came, kept beside the part that is there: PATH.json."""

from __future__ import annotations

import dataclasses
import json
import os

from tfrecord_builder import files


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a part comes from; the validator is as If-Range takes it. None is what is not known."""

    address: str | None = None
    validator: str | None = None
    num_bytes: int | None = None


def save(path: str, origin: Origin) -> None:
    """Writes what is known of the file at a path."""
    with files.writing(f"{path}.json") as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(origin), file)


def load(path: str) -> Origin:
    """Reads what is known of the file at a path; notes that a crash cut off are none."""
    try:
        with open(f"{path}.json", encoding="utf-8") as file:
            return Origin(**json.load(file))
    except (FileNotFoundError, ValueError, TypeError):
        return Origin()


def forget(path: str) -> None:
    """Removes the notes, once the file is whole or gone."""
    if os.path.exists(f"{path}.json"):
        os.remove(f"{path}.json")
