"""Lists a corpus into the catalog and makes a dev split; copies and file signatures of its recordings."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import Optional

import tqdm
from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.augmentation import augmentation_config, copies
from tfrecord_builder.augmentation import sources as augmentation_sources
from tfrecord_builder.building import catalog
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import normalisation
from tfrecord_builder.records import items
from tfrecord_builder.storage import files

_CONCURRENT_REQUESTS = 32
_PLAIN = copies.Variant()


def list_corpus(
    corpus: str, corpus_dirs: Sequence[str], listed: catalog.Catalog, dev_fraction: float = 0.0
) -> None:
    """Adds every utterance of the corpus to the catalog, and makes a dev split if one is asked for.

    Raises:
        UserError: the corpus cannot be read or is empty, or an utterance id is a duplicate.
    """
    for utterance in _progress(registry.list_utterances(corpus, corpus_dirs)):
        listed.add_utterance(utterance)
    where = ", ".join(corpus_dirs)
    if not listed.count_utterances():
        raise errors.UserError(
            f"--corpus_dir: {where} has no utterances; check --corpus and the files of the corpus."
        )
    if dev_fraction:
        make_dev_split(listed, dev_fraction)
    if not listed.count_utterances("dev"):
        logging.warning(
            "%s: the corpus has no dev split to evaluate a training on; "
            "pass --dev_fraction=0.05 to take one from the train split.",
            where,
        )


def make_dev_split(listed: catalog.Catalog, fraction: float) -> None:
    """Moves a fraction of train to dev unless the corpus has a dev split, and logs how many utterances.

    Whole speakers are moved, in the order of the hashes of their names, each that still fits; if none does,
    the smallest one. Utterances of unknown speakers, or of a single one, are moved one by one, and sentences
    of text together with equal ones. So the choice depends on the corpus alone, not on its order.
    """
    if listed.count_utterances("dev"):
        logging.warning("--dev_fraction=%g: the corpus has a dev split; nothing is moved to it.", fraction)
        return
    num_train, note = listed.count_utterances("train"), ""
    num_groups = listed.group("train", _group_key)
    if num_groups == 1 < num_train:
        num_groups = listed.group("train", lambda utterance: utterance.utterance_id)
        note = "; all are of one speaker, who is now in train and in dev"
    if num_groups > 1:
        listed.move_groups(_choose(listed, round(fraction * num_train)), "dev")
        moved = listed.count_utterances("dev")
        message = "--dev_fraction=%g: %d of %d utterances of train (%.1f %%) are now dev%s."
        logging.warning(message, fraction, moved, num_train, 100 * moved / num_train, note)


def list_copies(
    utterance: manifest.Utterance,
    config: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
) -> Iterator[tuple[str, Optional[copies.Variant]]]:
    """Yields id and augmentation of each copy of an utterance, usually with the utterance itself.

    Only the train split is augmented. Speed and volume that the corpus itself asks for come on top.
    """
    name, variants = utterance.utterance_id, [_PLAIN]
    if not config.is_plain and utterance.split == "train":
        variants = copies.list_variants(name, config, sources)
    for variant in variants:
        changed = variant
        if utterance.speed != 1 or utterance.volume_db:
            speed, volume_db = variant.speed * utterance.speed, variant.volume_db + utterance.volume_db
            changed = dataclasses.replace(variant, speed=speed, volume_db=volume_db)
        yield variant.name(name), None if changed == _PLAIN else changed


def signatures(recordings: Sequence[Optional[str]]) -> list[Optional[tuple[int, int]]]:
    """Returns the file signature of each recording; an object store is asked for many at once.

    Raises:
        UserError: the disk or the store fails.
    """
    if not any(path and files.is_remote(path) for path in recordings):
        return list(map(_signature, recordings))
    with concurrent.futures.ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:
        return list(pool.map(_signature, recordings))


def _group_key(utterance: manifest.Utterance) -> str:
    """Returns what must not be divided between train and dev."""
    if utterance.audio is None:
        return normalisation.normalise(utterance.text) or utterance.pinyin
    is_known = utterance.speaker.rpartition("/")[2]  # <directory>/ is a speaker without a name
    return f"speaker {utterance.speaker}" if is_known else f"utterance {utterance.utterance_id}"


def _choose(listed: catalog.Catalog, num_utterances: int) -> Iterator[bytes]:
    remaining, smallest = num_utterances, None
    for digest, size in listed.group_sizes():
        if size <= remaining:
            remaining -= size
            yield digest
        if smallest is None or size < smallest[0]:
            smallest = size, digest
    if remaining == num_utterances:
        yield smallest[1]


def _progress(utterances: Iterator[manifest.Utterance]) -> Iterator[manifest.Utterance]:
    return iter(tqdm.tqdm(utterances, unit="utt", desc="listing", disable=not sys.stderr.isatty()))


def _signature(audio: Optional[str]) -> Optional[tuple[int, int]]:
    try:
        return items.file_signature(audio)
    except OSError as error:
        raise errors.store_failed(audio, error) from error
