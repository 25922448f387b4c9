"""Labels a corpus in chunks. Any process that can access the chunks' directory can label a chunk.

A chunk consists of one or more of the catalog's utterance lists. A worker reads the lists and writes a
.labelled file with one line per item (utterance or augmented copy), sorted in the order in which sharding
assigns items to shards:

    sha256 of the id <TAB> split <TAB> sha256 of the sentence <TAB> id <TAB> line of the shard's .jsonl
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import augmentation_config, copies
from tfrecord_builder.building import catalog, resumable, sharding
from tfrecord_builder.building.engines import tasks
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling, normalisation, vocabularies
from tfrecord_builder.program import config_json, urls
from tfrecord_builder.storage import files

_MAX_CHUNKS = 200  # sharding opens one file per chunk, and systems may allow only a few hundred open files
_CONCURRENT_REQUESTS = 32
_PLAIN = copies.Variant()
_WORDLESS = labelling.Labels("", (), ())


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive utterances: their number, the lists that contain them, and the .labelled file to write."""

    file: str
    num_items: int
    lists: tuple[catalog.UtteranceList, ...]


@dataclasses.dataclass
class ChunkReceipt(resumable.ShardReceipt):
    """The result of labelling a chunk, saved in the chunk's JSON file.

    Attributes:
        run: id of the latest build run that labelled the chunk or found its recordings unchanged.
        split_sizes: number of items per split.
        counts: label counts, as returned by vocabularies.Collector.to_json.
        num_unclear: number of utterances that contain unclear numbers (see labelling.Labeller).
        unclear: id and text of the first such utterance.
    """

    run: str = ""
    split_sizes: dict = dataclasses.field(default_factory=collections.Counter)
    counts: dict = dataclasses.field(default_factory=dict)
    num_unclear: int = 0
    unclear: str = ""


@dataclasses.dataclass(frozen=True)
class ChunkLabeller(resumable.UnitWriter):
    """Labels chunks, one per unit of work; keeps earlier labels if the chunk's recordings are unchanged."""

    labeller: labelling.Labeller
    augmentation: augmentation_config.AugmentationConfig
    sources: copies.Sources
    settings_sha256: str
    run: str

    written_type = ChunkReceipt

    def fingerprint(self, chunk: Chunk) -> str:
        """Returns the hash of everything that the labels depend on, except the recordings."""
        return resumable.hash_json([self.settings_sha256, dataclasses.asdict(chunk)])

    def find_finished(self, chunk: Chunk) -> Optional[ChunkReceipt]:
        labelled = super().find_finished(chunk)
        return labelled if labelled and labelled.run == self.run else None

    def replace(self, chunk: Chunk, on_progress: resumable.OnProgress) -> ChunkReceipt:
        labelled = super().find_finished(chunk)
        if labelled is None or not _is_unchanged(os.path.join(self.directory, chunk.file)):
            return super().replace(chunk, on_progress)
        labelled.run = self.run
        labelled.save(self.json_path(chunk))
        return labelled

    def make(self, chunk: Chunk, path: str, on_progress: resumable.OnProgress) -> ChunkReceipt:
        labelled, lines = ChunkReceipt(chunk.file, run=self.run), []
        collector = vocabularies.Collector(self.labeller.config)
        utterances = [utterance for part in chunk.lists for utterance in part.read(self.directory)]
        signatures = find_signatures([utterance.audio for utterance in utterances])
        for done, (utterance, signature) in enumerate(zip(utterances, signatures), 1):
            labels = self.labeller(utterance)
            unknown = self.labeller.unknown_syllables(utterance, labels.transcript)
            problem = find_problem(utterance, labels, unknown)
            if problem:
                labelled.rejected.append([utterance.utterance_id, utterance.split, problem, utterance.audio])
            else:
                collector.add(labels, utterance.split)
                self._note_unclear(utterance, labelled)
                collector.left_out.update(self.labeller.count_left_out(utterance))
                for copy, variant in list_copies(utterance, self.augmentation, self.sources):
                    copy_labels = _WORDLESS if variant and variant.is_wordless else labels
                    item = sharding.LabelledUtterance(copy, copy_labels, signature, variant)
                    lines.append(sharding.to_labelled_line(item))
                    labelled.split_sizes[copy.split] += 1
            on_progress(done, len(labelled.rejected))
        labelled.num_records, labelled.counts = len(utterances) - len(labelled.rejected), collector.to_json()
        with open(path, "wb") as output:
            output.writelines(sorted(lines))
        return labelled

    def _note_unclear(self, utterance: manifest.Utterance, labelled: ChunkReceipt) -> None:
        if self.labeller.has_unclear_numbers(utterance):
            labelled.num_unclear += 1
            labelled.unclear = labelled.unclear or f"{utterance.utterance_id}: {utterance.text}"


def label_corpus(
    lists: Sequence[catalog.UtteranceList],
    labeller: labelling.Labeller,
    augmentation: augmentation_config.AugmentationConfig,
    sources: copies.Sources,
    directory: str,
    run: Callable[..., list[ChunkReceipt]],
) -> list[ChunkReceipt]:
    """Labels every utterance in the lists, which are in `directory`, using `run` (see engines/dispatch.py).

    If there is only one chunk, the calling process labels the chunk, because starting a worker would take
    longer. Raises UserError if a disk or object store fails, a worker is killed, or an utterance id looks
    like the id of an augmented copy.
    """
    settings = [labeller.describe(), *sources.describe(augmentation), *tasks.list_versions().items()]
    settings_sha256 = resumable.hash_json(settings)
    writer = ChunkLabeller(directory, labeller, augmentation, sources, settings_sha256, uuid.uuid4().hex)
    chunks = list(_divide(lists))
    if len(chunks) == 1:
        return [writer.write(chunks[0], lambda done, rejected: None)]
    return run(chunks, writer, title="labelling")


def find_problem(
    utterance: manifest.Utterance, labels: labelling.Labels, unknown_syllables: Sequence[str]
) -> str:
    """Returns the reason to reject an utterance, with details after ": ", or "" if it is accepted."""
    if utterance.problem:
        return utterance.problem  # a problem found when the corpus was listed
    unreadable = normalisation.find_unreadable(utterance.text)
    if unreadable:
        return f"transcript has an unreadable character: {unreadable}"
    if unknown_syllables:
        return f"pinyin has an unknown syllable: {unknown_syllables[0]}"
    if not labels.tokens and not labels.mark_ids:
        return "no transcript"
    if utterance.audio is None and not labels.characters:
        return "hanzi and pinyin do not match one to one"
    return ""


def list_copies(
    utterance: manifest.Utterance, config: augmentation_config.AugmentationConfig, sources: copies.Sources
) -> Iterator[tuple[manifest.Utterance, Optional[copies.Variant]]]:
    """Yields (copy, augmentation or None) for each copy of an utterance, usually including the original.

    Only the train split is augmented. A speed or volume that the corpus itself specifies is applied as well.
    """
    variants = [_PLAIN]
    if not config.is_plain and utterance.split == "train":
        variants = copies.list_variants(utterance.utterance_id, config, sources)
    for variant in variants:
        copy = dataclasses.replace(utterance, utterance_id=variant.name(utterance.utterance_id))
        if utterance.speed != 1 or utterance.volume_db:
            speed, volume_db = variant.speed * utterance.speed, variant.volume_db + utterance.volume_db
            variant = dataclasses.replace(variant, speed=speed, volume_db=volume_db)
        yield copy, None if variant == _PLAIN else variant


def find_signatures(recordings: Sequence[Optional[str]]) -> list[Optional[tuple[int, int]]]:
    """Returns the file signature of each recording; raises UserError if the disk or object store fails."""
    if not any(path and urls.is_remote(path) for path in recordings):
        return list(map(_find_signature, recordings))
    with concurrent.futures.ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:  # remote requests are slow
        return list(pool.map(_find_signature, recordings))


def _divide(lists: Sequence[catalog.UtteranceList]) -> Iterator[Chunk]:
    size = -(-len(lists) // _MAX_CHUNKS)
    for number, start in enumerate(range(0, len(lists), size)):
        chunk_lists = tuple(lists[start : start + size])
        yield Chunk(f"{number:05d}.labelled", sum(len(part.splits) for part in chunk_lists), chunk_lists)


def _is_unchanged(path: str) -> bool:
    """Returns True if no recording of a labelled chunk has changed; `path` is the chunk's .labelled file."""
    with files.open_binary(path) as file:
        chunk_items = [sharding.from_json(config_json.parse(line.split(b"\t", 4)[4])) for line in file]
    signatures = find_signatures([item.utterance.audio for item in chunk_items])
    return signatures == [item.signature for item in chunk_items]


def _find_signature(audio: Optional[str]) -> Optional[tuple[int, int]]:
    try:
        return sharding.file_signature(audio)
    except OSError as error:
        raise errors.store_failed(audio, error) from error
