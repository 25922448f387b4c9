"""Which utterance goes into which shard: a function of the corpus and the flags alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Sequence

from tfrecord_builder import frontend, labels, manifest, schema, vocabularies


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every shard of a build is made with.

    Attributes:
      vocabularies: tokens and characters by number.
      frontend: None for text.
      fbank_dtype: "float16" or "float32".
      max_seconds: longest recording that is accepted.
    """

    vocabularies: vocabularies.Vocabularies
    frontend: frontend.FrontendConfig | None
    fbank_dtype: str
    max_seconds: float


@dataclasses.dataclass(frozen=True)
class Item:
    """An utterance and its labels.

    Attributes:
      stamp: bytes and time of the recording when it was listed; None for text and where it is missing.
    """

    utterance: manifest.Utterance
    labels: labels.Labels
    stamp: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of the output: its name and what to put in, in order."""

    split: str
    file: str
    items: tuple[Item, ...]


def make_shards(items: Iterable[Item], num_shards: int) -> list[Shard]:
    """Deals the utterances of each split into shards, in the order of a digest of their ids.

    A split with fewer utterances than num_shards gets a shard for each.
    """
    by_split: dict[str, list[Item]] = {}
    for item in sorted(items, key=_digest):
        by_split.setdefault(item.utterance.split, []).append(item)
    return [shard for split in sorted(by_split) for shard in _deal(split, by_split[split], num_shards)]


def fingerprint(shards: Sequence[Shard], settings: Settings) -> str:
    """Gives the hash of what the bytes of the output depend on; for a recording, size and time stand in."""
    digest = hashlib.sha256()
    saved = settings.vocabularies
    described = dataclasses.asdict(settings.frontend) if settings.frontend else None
    digest.update(
        json.dumps([described, settings.fbank_dtype, settings.max_seconds], sort_keys=True).encode()
    )
    for part in (saved.tokens, saved.characters, saved.readings):
        digest.update(part.sha256.encode())
    for shard in shards:
        digest.update(repr((shard.file, shard.items, [_stamp(item) for item in shard.items])).encode())
    return digest.hexdigest()


def _deal(split: str, items: list[Item], num_shards: int) -> list[Shard]:
    count = min(num_shards, len(items))
    return [Shard(split, schema.shard_name(split, i, count), tuple(items[i::count])) for i in range(count)]


def _stamp(item: Item) -> tuple[int, int] | None:
    audio = item.utterance.audio
    if audio is None or not os.path.exists(audio):
        return None
    status = os.stat(audio)
    return status.st_size, status.st_mtime_ns


def _digest(item: Item) -> bytes:
    return hashlib.sha256(item.utterance.utterance_id.encode()).digest()
