"""Which utterance goes into which shard: a function of the corpus and the flags alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence

from tfrecord_builder import frontend, schema
from tfrecord_builder import lazy_tensorflow as tf
from tfrecord_builder.building import catalog, items
from tfrecord_builder.labels import vocabularies

_OPEN_FILES = 200  # an operating system allows a few hundred


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every shard of a build is made with.

    Attributes:
      vocabularies: tokens and characters by number.
      frontend: None for text.
      fbank_dtype: "float16" or "float32".
      max_seconds: longest recording that is accepted, before its speed is changed.
      augmentation_sha256: of the augmentation's flags and files; empty without.
    """

    vocabularies: vocabularies.Vocabularies
    frontend: frontend.FrontendConfig | None
    fbank_dtype: str
    max_seconds: float
    augmentation_sha256: str = ""


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of the output.

    Attributes:
      file: its name; items.path_of(file) lies beside it.
      num_items: how many items there are.
      ids_sha256: of their ids alone.
      items_sha256: of all that is known of them.
    """

    split: str
    file: str
    num_items: int
    ids_sha256: str
    items_sha256: str


def write(spooled: catalog.Spool, num_shards: int, directory: str) -> list[Shard]:
    """Deals the items of each split into shards, in the order of a digest of their ids.

    A split with fewer items than num_shards gets a shard for each.

    Args:
      spooled: all items.
      num_shards: of a split.
      directory: where to write the file of items of each shard.
    """
    shards = []
    for split, size in spooled.split_sizes().items():
        count = min(num_shards, size)
        for first in range(0, count, _OPEN_FILES):
            group = range(first, min(first + _OPEN_FILES, count))
            shards += _write_group(spooled, split, group, count, directory)
    return shards


def fingerprint(shards: Sequence[Shard], settings: Settings) -> str:
    """Gives the hash by which an interrupted build is known again: the utterances and all settings."""
    parts = [settings_sha256(settings), *((shard.file, shard.ids_sha256) for shard in shards)]
    return hash_json(parts)


def shard_fingerprint(shard: Shard, settings: Settings) -> str:
    """Gives the hash of what a shard's bytes depend on; for a recording, size and time stand in."""
    return hash_json([tf.__version__, settings_sha256(settings), shard.file, shard.items_sha256])


def settings_sha256(settings: Settings) -> str:
    """Gives the hash of all that a record depends on beside its item."""
    saved = settings.vocabularies
    hashes = [saved.tokens.sha256, saved.characters.sha256, saved.readings.sha256]
    return hash_json([config_sha256(settings), *hashes])


def config_sha256(settings: Settings) -> str:
    """Gives the hash of how a recording becomes features."""
    described = settings.frontend and dataclasses.asdict(settings.frontend)
    values = [settings.fbank_dtype, settings.max_seconds, settings.augmentation_sha256]
    return hash_json([described, *values])


def hash_json(values: list) -> str:
    """Gives the hex digest of values that JSON can write."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _write_group(spooled: catalog.Spool, split: str, group: range, count: int, directory: str) -> list[Shard]:
    """Writes the items of some shards of a split; a pass over the split for each group."""
    writers = {i: _ItemsWriter(split, schema.shard_name(split, i, count), directory) for i in group}
    try:
        for place, (name, line) in enumerate(spooled.lines(split)):
            if place % count in writers:
                writers[place % count].add(name, line)
    finally:
        for writer in writers.values():
            writer.close()
    return [writer.shard() for writer in writers.values()]


class _ItemsWriter:
    """The file of the items of one shard, and what is known of it."""

    def __init__(self, split: str, shard_file: str, directory: str):
        self._split, self._shard_file, self._num_items = split, shard_file, 0
        self._ids, self._lines = hashlib.sha256(), hashlib.sha256()
        self._file = open(os.path.join(directory, items.path_of(shard_file)), "wb")

    def add(self, name: str, line: str) -> None:
        self._num_items += 1
        self._ids.update(f"{name}\n".encode())
        self._lines.update(line.encode())
        self._file.write(line.encode())

    def close(self) -> None:
        self._file.close()

    def shard(self) -> Shard:
        hashes = self._ids.hexdigest(), self._lines.hexdigest()
        return Shard(self._split, self._shard_file, self._num_items, *hashes)
