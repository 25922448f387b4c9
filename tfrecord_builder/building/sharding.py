"""The items of a build (labelled utterances), and their assignment to shards.

The items of a shard are stored in a .jsonl file next to the shard, one item per line:

    {"utterance": {"utterance_id": "u1", "audio": "/c/u1.wav", "text": "一下", ...},
     "labels": {"transcript": "一下", "tokens": ["yi1", "xia4"], "characters": ["一", "下"]},
     "stamp": [43218, 1700000000000000000], "variant": null}

The file stays in the data directory to show which recording each record was made from (see recordings.py).
It also contains the utterances that were rejected while the shard was written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import heapq
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import copies
from tfrecord_builder.building import catalog, resumable
from tfrecord_builder.data import manifest, recordings, schema
from tfrecord_builder.labels import labelling, vocabularies
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

_BUFFER_BYTES = 1 << 26  # total size of all shards' write buffers


@dataclasses.dataclass(frozen=True)
class LabelledUtterance:
    """An utterance or an augmented copy, with its labels."""

    utterance: manifest.Utterance
    labels: labelling.Labels
    signature: Optional[tuple[int, int]] = None  # the recording's file_signature when it was labelled
    variant: Optional[copies.Variant] = None  # the augmentation; None if the item is not augmented


@dataclasses.dataclass(frozen=True)
class RecordSettings:
    """The settings that affect every record of a build.

    Attributes:
        frontend: feature settings; None for text-only data.
        fbank_dtype: "float16" or "float32".
        max_seconds: maximum length of a recording before any speed change; longer recordings are rejected.
        augmentation_sha256: hash of the augmentation's flags and files; empty if there is no augmentation.
        exclude_sha256: hash of the table of excluded utterances; empty if there is no such table.
    """

    vocabularies: vocabularies.Vocabularies
    frontend: Optional[frontend.FrontendConfig]
    fbank_dtype: str
    max_seconds: float
    augmentation_sha256: str = ""
    exclude_sha256: str = ""

    def features_sha256(self) -> str:
        """Returns the hash of all settings that affect how features are computed from recordings."""
        frontend_settings = self.frontend and dataclasses.asdict(self.frontend)
        values = [self.fbank_dtype, self.max_seconds, self.augmentation_sha256]
        return resumable.hash_json([frontend_settings, *values])

    def sha256(self) -> str:
        """Returns the hash of everything that a record depends on besides its item."""
        saved = self.vocabularies
        hashes = [saved.tokens.sha256, saved.characters.sha256, saved.readings.sha256]
        return resumable.hash_json([self.features_sha256(), *hashes, self.exclude_sha256])


@dataclasses.dataclass(frozen=True)
class PlannedShard:
    """One shard of a split. Its items are stored in a .jsonl file next to the shard.

    Attributes:
        file: name of the TFRecord file.
        ids_sha256: hash of the item ids.
        items_sha256: hash of the .jsonl file.
    """

    split: str
    file: str
    num_items: int
    ids_sha256: str
    items_sha256: str


def to_line(item: LabelledUtterance) -> str:
    """Returns an item as one line of JSON; any bytes in file names that are not UTF-8 are escaped."""
    labels = {name: value for name, value in vars(item.labels).items() if name != "mark_ids" or value}
    parts = {
        "utterance": vars(item.utterance),
        "labels": labels,
        "stamp": item.signature,
        "variant": item.variant and vars(item.variant),
    }
    return json.dumps(parts, ensure_ascii=False).encode("utf-8", "backslashreplace").decode() + "\n"


def to_labelled_line(item: LabelledUtterance) -> bytes:
    """Returns an item's line for a .labelled file (see chunks.py)."""
    name, labels = item.utterance.utterance_id, item.labels
    digest = hashlib.sha256(name.encode()).hexdigest()
    sentence = hashlib.sha256((labels.transcript or " ".join(labels.tokens)).encode()).hexdigest()
    return f"{digest}\t{item.utterance.split}\t{sentence}\t{name}\t{to_line(item)}".encode()


def from_json(parts: dict[str, Any]) -> LabelledUtterance:
    """Converts a parsed line to an item; raises KeyError or TypeError if to_line did not write the line."""
    labels = {name: tuple(v) if isinstance(v, list) else v for name, v in parts["labels"].items()}
    return LabelledUtterance(
        manifest.Utterance(**parts["utterance"]),
        labelling.Labels(**labels),
        tuple(parts["stamp"]) if parts["stamp"] else None,
        copies.Variant(**parts["variant"]) if parts["variant"] else None,
    )


def read_items(shard_path: str) -> Iterator[LabelledUtterance]:
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
            raise  # the disk or object store failed, not only this file
        return None


def write(
    labelled: Sequence[str],
    split_sizes: Mapping[str, int],
    num_shards: int,
    directory: str,
    corpus: catalog.Catalog,
) -> list[PlannedShard]:
    """Assigns the items in .labelled files (see chunks.py) to shards, and writes each shard's .jsonl file.

    The items of a split, sorted by the sha256 of their ids, are assigned to its shards in turn. A split with
    fewer items than num_shards gets one shard per item. Every item is added to the catalog. Raises UserError
    if an augmented copy and an utterance have the same id.
    """
    counts = {split: min(num_shards, split_sizes[split]) for split in sorted(split_sizes)}
    buffer_bytes = _BUFFER_BYTES // sum(counts.values(), 1)
    outputs = {
        split: [
            _Output(split, schema.shard_name(split, i, count), directory, buffer_bytes) for i in range(count)
        ]
        for split, count in counts.items()
    }
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(files.open_binary(path)) for path in labelled]
        corpus.add_items(_assign(heapq.merge(*opened), outputs))
    return [output.finish() for split in outputs.values() for output in split]


def fingerprint(shards: Sequence[PlannedShard], settings: RecordSettings) -> str:
    """Returns a hash of the item ids and settings, used to recognise an interrupted build."""
    return resumable.hash_json([settings.sha256(), *((shard.file, shard.ids_sha256) for shard in shards)])


class _Output:
    """A shard's .jsonl file while it is written; the file is open only while the buffer is flushed."""

    def __init__(self, split: str, file: str, directory: str, buffer_bytes: int):
        self._path = os.path.join(directory, recordings.path_of(file))
        self._buffer, self._buffer_bytes = bytearray(), buffer_bytes
        self._ids, self._lines = hashlib.sha256(), hashlib.sha256()
        self._split, self._file, self._num_items = split, file, 0
        open(self._path, "wb").close()

    def add(self, utterance_id: bytes, line: bytes) -> None:
        self._ids.update(utterance_id + b"\n")
        self._buffer += line
        self._num_items += 1
        if len(self._buffer) > self._buffer_bytes:
            self._write()

    def finish(self) -> PlannedShard:
        self._write()
        hashes = self._ids.hexdigest(), self._lines.hexdigest()
        return PlannedShard(self._split, self._file, self._num_items, *hashes)

    def _write(self) -> None:
        self._lines.update(self._buffer)
        with open(self._path, "ab") as file:
            file.write(self._buffer)
        self._buffer.clear()


def _assign(lines: Iterable[bytes], outputs: Mapping[str, Sequence[_Output]]) -> Iterator[tuple]:
    """Adds each item to its shard; yields (id, split, sentence hash) for each item."""
    ranks, last = dict.fromkeys(outputs, 0), b""
    for line in lines:
        _, split, sentence, name, item = line.split(b"\t", 4)
        if name == last:
            raise errors.UserError(
                f"--corpus_dir: {name.decode()} is the id of both an utterance and an augmented copy "
                "of another utterance; rename the utterance."
            )
        last, split = name, split.decode()
        outputs[split][ranks[split] % len(outputs[split])].add(name, item)
        ranks[split] += 1
        yield name.decode(), split, sentence
