"""Labels a corpus chunk by chunk, in any process that sees the directory of the chunks.

A chunk is a range of the corpus; <chunk>.listed has the split and the JSON of each utterance. A worker writes
<chunk>.labelled, a line per item (utterance or augmented copy) in the order in which shards take them,

    sha256 of the id <TAB> split <TAB> sha256 of the sentence <TAB> id <TAB> line of the shard's .jsonl

then <chunk>.labelled.json, what the build needs to know of all of them, which marks the chunk as finished.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import uuid
from collections.abc import Callable, Iterator
from typing import Optional

from tfrecord_builder.augmentation import augmentation_config
from tfrecord_builder.augmentation import sources as augmentation_sources
from tfrecord_builder.building import catalog, checks, listing, sharding
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling, vocabularies
from tfrecord_builder.output import worker_pool
from tfrecord_builder.records import items
from tfrecord_builder.storage import files

_MIN_UTTERANCES = 10_000  # of a chunk: fewer are not worth a worker
_MAX_CHUNKS = 200  # all are read at once, and an operating system allows a few hundred open files
_LIBRARIES = ("pypinyin", "rjieba", "wetext", "sentencepiece")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every chunk is labelled with."""

    labeller: labelling.Labeller
    augmentation: augmentation_config.AugmentationConfig
    sources: augmentation_sources.Sources


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A range of the corpus: its .labelled file, and how many utterances it has.

    Attributes:
        fingerprint: hash of all that its labels depend on, except for the recordings.
        run: identifies a run of the build: each looks once whether the recordings are the same.
    """

    file: str
    num_items: int
    fingerprint: str
    run: str


@dataclasses.dataclass
class Labelled:
    """What is known of a labelled chunk; its file, fingerprint and run are those of the chunk.

    Attributes:
        num_records: number of utterances that were not rejected.
        split_sizes: number of items per split.
        rejected: [utterance_id, split, reason, audio] of each rejected utterance.
        counts: see vocabularies.Collector.to_json.
        num_unclear: number of utterances with unclear numbers (see Labeller).
        unclear: utterance_id and text of the first one.
    """

    file: str
    fingerprint: str
    run: str
    num_records: int = 0
    split_sizes: dict = dataclasses.field(default_factory=collections.Counter)
    rejected: list = dataclasses.field(default_factory=list)
    counts: dict = dataclasses.field(default_factory=dict)
    num_unclear: int = 0
    unclear: str = ""


def label_corpus(
    listed: catalog.Catalog, settings: Settings, directory: str, run: Callable[..., list[Labelled]]
) -> list[Labelled]:
    """Labels every utterance of the catalog, by `run` (as worker_pool.write_shards) in a directory.

    A single chunk is labelled here: it is not worth a worker. Those that an interrupted build finished are
    kept if their utterances and recordings are the same.

    Raises:
        UserError: a disk or store fails, a worker was killed, or an id could be that of a copy.
    """
    waiting = list(_write_lists(listed, settings, directory))
    label = functools.partial(label_chunk, settings=settings, directory=directory)
    if len(waiting) == 1:
        return [label(waiting[0], lambda done, rejected: None)]
    return run(waiting, functools.partial(load_finished, directory=directory), label, title="labelling")


def label_chunk(
    chunk: Chunk, on_progress: worker_pool.OnProgress, settings: Settings, directory: str
) -> Labelled:
    """Labels a chunk; raises UserError if the disk refuses its files."""
    try:
        path = os.path.join(directory, chunk.file)
        found = _load(chunk, directory)
        if not found or not _is_unchanged(path):
            found, lines = _label_utterances(chunk, on_progress, settings, directory)
            with files.writing(path) as temporary:
                with open(temporary, "wb") as file:
                    file.writelines(sorted(lines))
                files.sync(temporary)
        found.run = chunk.run
        files.write_text(f"{path}.json", json.dumps(vars(found)))
        return found
    except Exception as error:
        worker_pool.explain_refusal(directory, chunk.file, error)
        raise


def load_finished(chunk: Chunk, directory: str) -> Optional[Labelled]:
    """Returns what is known of a chunk that this run of the build has labelled; None if it has not."""
    found = _load(chunk, directory)
    return found if found and found.run == chunk.run else None


def to_line(item: items.Item) -> bytes:
    """Returns the line of an item. Its sentence is the transcript, or else the pronunciation."""
    name, labels = item.utterance.utterance_id, item.labels
    digest = hashlib.sha256(name.encode()).hexdigest()
    sentence = hashlib.sha256((labels.transcript or " ".join(labels.tokens)).encode()).hexdigest()
    return f"{digest}\t{item.utterance.split}\t{sentence}\t{name}\t{items.to_line(item)}".encode()


def _write_lists(listed: catalog.Catalog, settings: Settings, directory: str) -> Iterator[Chunk]:
    """Writes the .listed files; yields their chunks."""
    run, described = uuid.uuid4().hex, _describe(settings)
    size = max(_MIN_UTTERANCES, -(-listed.count_utterances() // _MAX_CHUNKS))
    lines = listed.lines()
    for number in itertools.count():
        content = "".join(f"{line}\n" for line in itertools.islice(lines, size)).encode()
        if not content:
            return
        file = f"{number:05d}.labelled"
        with files.writing(_list_of(os.path.join(directory, file))) as path, open(path, "wb") as output:
            output.write(content)
        fingerprint = sharding.hash_json([described, hashlib.sha256(content).hexdigest()])
        yield Chunk(file, content.count(b"\n"), fingerprint, run)


def _describe(settings: Settings) -> list:
    """Returns what labels depend on besides the utterance: flags, files, libraries and this program."""
    package = pathlib.Path(__file__).resolve().parents[1]  # readings and checks lie outside labels/ too
    return [
        [
            settings.labeller.describe(),
            dataclasses.asdict(settings.augmentation),
            settings.sources.describe(),
        ],
        [platform.python_version(), *map(importlib.metadata.version, _LIBRARIES)],
        [files.sha256(str(path)) for path in sorted(package.rglob("*.py"))],
    ]


def _load(chunk: Chunk, directory: str) -> Optional[Labelled]:
    """Returns what any run knows of the chunk."""
    try:
        found = Labelled(**json.loads(files.read_text(os.path.join(directory, f"{chunk.file}.json"))))
    except (FileNotFoundError, ValueError, TypeError):  # cut, or from another version
        return None
    return found if found.fingerprint == chunk.fingerprint else None


def _is_unchanged(path: str) -> bool:
    """Returns whether the recordings of a labelled chunk are still the same."""
    with files.open_binary(path) as file:
        found = [items.from_json(json.loads(line.split(b"\t", 4)[4])) for line in file]
    return listing.signatures([each.utterance.audio for each in found]) == [each.signature for each in found]


def _label_utterances(
    chunk: Chunk, on_progress: worker_pool.OnProgress, settings: Settings, directory: str
) -> tuple[Labelled, list[bytes]]:
    found, lines = Labelled(chunk.file, chunk.fingerprint, chunk.run), []
    collector = vocabularies.Collector(settings.labeller.config)
    with files.open_binary(_list_of(os.path.join(directory, chunk.file))) as file:
        utterances = [catalog.parse_line(line.decode()) for line in file]
    signatures = listing.signatures([each.audio for each in utterances])
    for done, (utterance, signature) in enumerate(zip(utterances, signatures), 1):
        try:
            labels = settings.labeller(utterance)
            unknown = settings.labeller.unknown_syllables(utterance, labels.transcript)
            checks.check_labels(utterance, labels, unknown)
        except checks.Rejected as reason:
            found.rejected.append([utterance.utterance_id, utterance.split, str(reason), utterance.audio])
        else:
            collector.add(labels, utterance.split)
            if settings.labeller.has_unclear_numbers(utterance):
                found.num_unclear += 1
                found.unclear = found.unclear or f"{utterance.utterance_id}: {utterance.text}"
            made = list(_make_items(utterance, labels, signature, settings))
            found.split_sizes[utterance.split] += len(made)
            lines += map(to_line, made)
        on_progress(done, len(found.rejected))
    found.num_records, found.counts = len(utterances) - len(found.rejected), collector.to_json()
    return found, lines


def _make_items(
    utterance: manifest.Utterance,
    labels: labelling.Labels,
    signature: Optional[tuple[int, int]],
    settings: Settings,
) -> Iterator[items.Item]:
    for name, variant in listing.list_copies(utterance, settings.augmentation, settings.sources):
        named = dataclasses.replace(utterance, utterance_id=name) if variant else utterance
        yield items.Item(named, labels, signature, variant)


def _list_of(path: str) -> str:
    return f"{os.path.splitext(path)[0]}.listed"
