"""What goes into a shard, an utterance with its labels, and the file that names it, an item a line.

    {"utterance": {"utterance_id": "u1", "audio": "/c/u1.wav", "text": "一下", ...},
     "labels": {"transcript": "一下", "tokens": ["yi1", "xia4"], "characters": ["一", "下"]},
     "stamp": [43218, 1700000000000000000], "variant": null}

`<name>.jsonl` lies beside `<name>.tfrecord`, also in the data directory: it tells which recording a record
was made of. What was rejected while the shard was written is there too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from tfrecord_builder import errors, files, manifest, recordings
from tfrecord_builder.augmentation import copies
from tfrecord_builder.labels import labelling


@dataclasses.dataclass(frozen=True)
class Item:
    """An utterance and its labels.

    Attributes:
      stamp: bytes and time of the recording when it was listed; None for text and where it is missing.
      variant: how its sound is changed; None for what is as recorded.
    """

    utterance: manifest.Utterance
    labels: labelling.Labels
    stamp: tuple[int, int] | None = None
    variant: copies.Variant | None = None


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
    """Reads what to_line wrote; raises ValueError, KeyError or TypeError for anything else."""
    parts = json.loads(line)
    found = {name: tuple(v) if isinstance(v, list) else v for name, v in parts["labels"].items()}
    return Item(
        manifest.Utterance(**parts["utterance"]),
        labelling.Labels(**found),
        tuple(parts["stamp"]) if parts["stamp"] else None,
        copies.Variant(**parts["variant"]) if parts["variant"] else None,
    )


def path_of(shard_path: str) -> str:
    """Names the file of a shard's items."""
    return recordings.path_of(shard_path)


def read(shard_path: str) -> Iterator[Item]:
    """Yields the items of a shard, in their order.

    Raises:
      UserError: a line is not as described above.
      OSError: the file cannot be read.
    """
    path = path_of(shard_path)
    with files.open_binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield from_line(line.decode())
            except (ValueError, KeyError, TypeError) as error:
                raise errors.UserError(
                    f"{path}: line {number} is no item ({type(error).__name__}: {error}), expected the JSON "
                    "that the build wrote; copy or build the data again."
                ) from None


def stamp(audio: str | None) -> tuple[int, int] | None:
    """Gives bytes and time of a recording; None where there is none."""
    try:
        return audio and files.size_and_time(audio)
    except (FileNotFoundError, ValueError):  # the latter for a name that no file can have
        return None
    except OSError as error:
        if files.is_remote(audio) or not files.concerns_one_file(error):
            raise  # the disk or the store fails, not the recording
        return None
