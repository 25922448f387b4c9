"""Assigns the items of a build to shards: a function of the corpus and the flags alone."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Optional

from tfrecord_builder import frontend, recordings, schema
from tfrecord_builder import lazy_tensorflow as tf
from tfrecord_builder.building import catalog
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.records import items

_OPEN_FILES = 200  # an operating system allows a few hundred


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every shard of a build is made with.

    Attributes:
        frontend: None for text.
        fbank_dtype: "float16" or "float32".
        max_seconds: duration of the longest recording that is accepted, before its speed is changed.
        augmentation_sha256: hash of the augmentation's flags and files; empty without augmentation.
    """

    vocabularies: vocabularies.Vocabularies
    frontend: Optional[frontend.FrontendConfig]
    fbank_dtype: str
    max_seconds: float
    augmentation_sha256: str = ""


@dataclasses.dataclass(frozen=True)
class Shard:
    """One shard of a split. Its items lie in a .jsonl file beside it.

    Attributes:
        file: name of the TFRecord file.
        ids_sha256: hash of the ids of the items.
        items_sha256: hash of the .jsonl file.
    """

    split: str
    file: str
    num_items: int
    ids_sha256: str
    items_sha256: str


def write(listed: catalog.Catalog, num_shards: int, directory: str) -> list[Shard]:
    """Assigns the items of each split to shards in turn, and writes the .jsonl file of each shard.

    The order of the items is that of the sha256 of their ids. A split with fewer items than num_shards gets
    one shard per item.
    """
    shards = []
    for split, size in listed.split_sizes().items():
        count = min(num_shards, size)
        for first in range(0, count, _OPEN_FILES):
            group = range(first, min(first + _OPEN_FILES, count))
            shards += _write_group(listed, split, group, count, directory)
    return shards


def fingerprint(shards: Sequence[Shard], settings: Settings) -> str:
    """Returns the hash that identifies an interrupted build: that of its utterance ids and settings."""
    parts = [settings_sha256(settings), *((shard.file, shard.ids_sha256) for shard in shards)]
    return hash_json(parts)


def shard_fingerprint(shard: Shard, settings: Settings) -> str:
    """Returns the hash of all that a shard's bytes depend on; a file signature stands for a recording."""
    return hash_json([tf.__version__, settings_sha256(settings), shard.file, shard.items_sha256])


def settings_sha256(settings: Settings) -> str:
    """Returns the hash of everything that a record depends on besides its item."""
    saved = settings.vocabularies
    hashes = [saved.tokens.sha256, saved.characters.sha256, saved.readings.sha256]
    return hash_json([config_sha256(settings), *hashes])


def config_sha256(settings: Settings) -> str:
    """Returns the hash of how features are computed from a recording."""
    described = settings.frontend and dataclasses.asdict(settings.frontend)
    values = [settings.fbank_dtype, settings.max_seconds, settings.augmentation_sha256]
    return hash_json([described, *values])


def hash_json(values: list) -> str:
    """Returns the hex digest of values that JSON can represent."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _write_group(
    listed: catalog.Catalog, split: str, group: range, count: int, directory: str
) -> list[Shard]:
    """Writes the items of some of the `count` shards of a split, in one pass over the split."""
    names = {i: schema.shard_name(split, i, count) for i in group}
    num_items = dict.fromkeys(group, 0)
    ids, lines = ({i: hashlib.sha256() for i in group} for _ in range(2))
    with contextlib.ExitStack() as stack:
        paths = {i: os.path.join(directory, recordings.path_of(name)) for i, name in names.items()}
        outputs = {i: stack.enter_context(open(path, "wb")) for i, path in paths.items()}
        for i, item in listed.items(split, count, group):
            line = items.to_line(item).encode()
            outputs[i].write(line)
            lines[i].update(line)
            ids[i].update(f"{item.utterance.utterance_id}\n".encode())
            num_items[i] += 1
    return [Shard(split, names[i], num_items[i], ids[i].hexdigest(), lines[i].hexdigest()) for i in group]
