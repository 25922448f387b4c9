"""A corpus into the spool: listed, labelled, and rejected where there is nothing to learn from."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence

import tqdm
from absl import logging

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.augmentation import augmentation_config
from tfrecord_builder.augmentation import copies as augmentation_plan
from tfrecord_builder.augmentation import sources as augmentation_sources
from tfrecord_builder.building import catalog, checks, dev_split, items
from tfrecord_builder.corpora import registry
from tfrecord_builder.labels import labelling

_CONCURRENT_QUESTIONS = 32


def list_corpus(
    corpus: str, corpus_dirs: Sequence[str], spooled: catalog.Spool, dev_fraction: float = 0.0
) -> None:
    """Puts every utterance of the corpus into the spool, and makes a dev split if that is asked for.

    Raises:
      UserError: the corpus cannot be read, has no utterance, or two share an id.
    """
    utterances = registry.list_utterances(corpus, corpus_dirs)
    for utterance in tqdm.tqdm(utterances, unit="utt", desc="listing", disable=not sys.stderr.isatty()):
        spooled.add_utterance(utterance)
    where = ", ".join(corpus_dirs)
    if not spooled.count_utterances():
        raise errors.UserError(f"--corpus_dir: {where}: it lists no utterance, expected some.")
    if dev_fraction:
        dev_split.make(spooled, dev_fraction)
    if not spooled.count_utterances("dev"):
        logging.warning(
            "%s: there is no dev split, so training on this alone has nothing to be measured on; "
            "pass --dev_fraction=0.05 to take it from the train split.",
            where,
        )


def label_corpus(spooled: catalog.Spool, labeller: labelling.Labeller) -> Iterator[items.Item]:
    """Yields every utterance with its labels; what has no usable labels is rejected at once."""
    progress = tqdm.tqdm(
        spooled.utterances(),
        total=spooled.count_utterances(),
        unit="utt",
        desc="labelling",
        disable=not sys.stderr.isatty(),
    )
    for utterance, stamp in _stamped(iter(progress)):
        found = labeller(utterance)
        try:
            checks.check_listed(utterance)
            checks.check_pinyin(labeller.unknown_syllables(utterance, found.transcript))
            checks.check_labels(found, is_text=utterance.audio is None)
        except checks.Rejected as reason:
            spooled.reject(utterance.utterance_id, utterance.split, str(reason), utterance.audio)
        else:
            yield items.Item(utterance, found, stamp)


def _stamped(
    utterances: Iterator[manifest.Utterance],
) -> Iterator[tuple[manifest.Utterance, tuple[int, int] | None]]:
    """Yields each with the stamp of its recording; a store is asked for many at once."""
    with concurrent.futures.ThreadPoolExecutor(_CONCURRENT_QUESTIONS) as pool:
        for first in utterances:
            if not first.audio or not files.is_remote(first.audio):
                yield first, _stamp(first.audio)
                continue
            group = [first, *itertools.islice(utterances, 4 * _CONCURRENT_QUESTIONS - 1)]
            yield from zip(group, pool.map(_stamp, [each.audio for each in group]))


def _stamp(audio: str | None) -> tuple[int, int] | None:
    try:
        return items.stamp(audio)
    except OSError as error:
        raise errors.store_failed(audio, error) from error


def copies(
    item: items.Item,
    config: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
) -> Iterator[items.Item]:
    """Yields an item for each augmented copy of an utterance, itself among them as the config says.

    Only the train split has copies. Speed and volume that the corpus itself asks for come on top.
    """
    name, variants = item.utterance.utterance_id, [augmentation_plan.Variant()]
    if not config.is_plain and item.utterance.split == "train":
        variants = augmentation_plan.list_variants(name, config, sources)
    for variant in variants:
        utterance = dataclasses.replace(item.utterance, utterance_id=variant.name(name))
        changed = dataclasses.replace(
            variant,
            speed=variant.speed * utterance.speed,
            volume_db=variant.volume_db + utterance.volume_db,
        )
        is_changed = changed != augmentation_plan.Variant()
        yield dataclasses.replace(item, utterance=utterance, variant=changed if is_changed else None)
