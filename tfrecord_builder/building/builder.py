"""Builds a data directory from a corpus: list, label, assign to shards, write, publish."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

from absl import logging

from tfrecord_builder.audio import frontend
from tfrecord_builder.augmentation import augmentation_config, codecs
from tfrecord_builder.augmentation import sources as augmentation_sources
from tfrecord_builder.building import (
    beam_pipeline,
    build_config,
    catalog,
    chunks,
    listing,
    shard_writer,
    sharding,
    summary,
)
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.labels import labelling, normalisation, vocabularies
from tfrecord_builder.output import output_directory, staging, worker_pool
from tfrecord_builder.records import shard_statistics
from tfrecord_builder.runtime import cpu

PLAIN = augmentation_config.AugmentationConfig()
SYLLABLES = labelling.LabelConfig()
OF_THE_TRAIN_SPLIT = vocabularies.VocabularyConfig()
_NUM_UNKNOWN_LOGGED = 10
_MIN_TRADITIONAL = 10  # kinds of characters: simplified text has a few of them, such as 乾 in 乾隆
_UNCLEAR = {
    "keep": "--numbers=keep: labels of %d transcript(s) lack points, signs or units of numbers (12.5%% is "
    "1 2 5), as of %s; --numbers=read reads them in Mandarin (docs/numbers.md)",
    "read": "--numbers=read: numbers of %d transcript(s) may be read otherwise than said, as of %s: a hyphen "
    "as a minus, 3-1 as a range, 24/7 as a fraction, a sign left out; write in hanzi what was said",
}


def build(
    config: build_config.BuildConfig,
    frontend_config: frontend.FrontendConfig,
    augmentation: augmentation_config.AugmentationConfig = PLAIN,
    label_config: labelling.LabelConfig = SYLLABLES,
    vocabulary_config: vocabularies.VocabularyConfig = OF_THE_TRAIN_SPLIT,
) -> dataset_info.DatasetInfo:
    """Builds config.output_dir.

    Returns:
        The contents of its dataset_info.json.

    Raises:
        UserError: the corpus, the output directory or the frozen vocabulary cannot be used, too many
            utterances are rejected, or two flags do not fit together.
    """
    build_config.check_text(config, frontend_config, augmentation, label_config)
    codecs.require(augmentation.codecs)
    sources = augmentation_sources.find_sources(augmentation)
    if vocabulary_config.vocabulary_dir:
        vocabularies.check_token_type(vocabulary_config.vocabulary_dir, label_config.token_type)
    run = _choose_runner(config)
    with _open(config) as (workspace, listed):
        listing.list_corpus(config.corpus, config.corpus_dir, listed, config.dev_fraction)
        training = listed.utterances("train")
        bpe_model = vocabularies.make_subwords(label_config, vocabulary_config, training)
        labeller = labelling.Labeller(label_config, bpe_model)
        how = chunks.Settings(labeller, augmentation, sources)
        collector, shards = _label(config, how, listed, workspace, run)
        summary.check_rejected(config, listed)
        saved = vocabularies.make(collector, vocabulary_config, bpe_model)
        _log_unknown(collector, saved)
        _log_traditional(collector)
        settings = _make_settings(config, frontend_config, saved, augmentation, sources)
        fingerprint = sharding.fingerprint(shards, settings)
        directory = staging.start(config.output_dir, fingerprint, config.overwrite)
        staging.take_over((recordings.path_of(each.file) for each in shards), workspace, directory)
        found = write_shards(shards, settings, directory, run)
        for row in (row for statistics in found for row in statistics.rejected):
            listed.reject(*row)
        summary.check_rejected(config, listed)
        info = summary.write(directory, settings, label_config, found, listed)
        staging.publish(config.output_dir, info)
        summary.log_rejected(listed)
    return info


@contextlib.contextmanager
def _open(config: build_config.BuildConfig) -> Iterator[tuple[str, catalog.Catalog]]:
    """Locks the output directory; yields a directory for scratch files and an empty catalog in it."""
    with output_directory.reserve(config.output_dir, config.overwrite) as workspace:
        with catalog.open_new(os.path.join(workspace, "catalog.sqlite")) as listed:
            yield workspace, listed


def _make_settings(
    config: build_config.BuildConfig,
    frontend_config: frontend.FrontendConfig,
    saved: vocabularies.Vocabularies,
    augmentation: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
) -> sharding.Settings:
    used: Optional[frontend.FrontendConfig] = None if config.corpus == "text" else frontend_config
    changed = [dataclasses.asdict(augmentation), sources.describe()]
    augmentation_sha256 = "" if augmentation.is_plain else sharding.hash_json(changed)
    return sharding.Settings(saved, used, config.fbank_dtype, config.max_seconds, augmentation_sha256)


def _log_unknown(collector: vocabularies.Collector, saved: vocabularies.Vocabularies) -> None:
    for kind in ("tokens", "characters"):
        found, known = getattr(collector, kind), getattr(saved, kind)
        unknown = vocabularies.most_frequent_unknown(found, known, _NUM_UNKNOWN_LOGGED)
        if unknown:
            counts = summary.format_counts(unknown)
            logging.warning("most frequent %s that the vocabulary lacks: %s", kind, counts)


def _log_traditional(collector: vocabularies.Collector) -> None:
    counts = collector.characters or collector.tokens
    found = normalisation.find_traditional(counts)
    if len(found) >= _MIN_TRADITIONAL:
        frequent = sorted(found, key=counts.get, reverse=True)[:_NUM_UNKNOWN_LOGGED]
        examples = ", ".join(f"{each} ({counts[each]}) beside {found[each]}" for each in frequent)
        logging.warning(
            "%d characters are traditional beside the simplified ones, which makes two labels of a word: %s; "
            "convert the transcripts, with OpenCC for instance (opencc -c t2s)",
            sum(counts[each] for each in found),
            examples,
        )


def _log_unclear(labelled: Sequence[chunks.Labelled], numbers: str) -> None:
    unclear = [each for each in labelled if each.num_unclear]
    if unclear:
        logging.warning(_UNCLEAR[numbers], sum(each.num_unclear for each in unclear), unclear[0].unclear)


def _label(
    config: build_config.BuildConfig,
    how: chunks.Settings,
    listed: catalog.Catalog,
    workspace: str,
    run: Callable[..., list],
) -> tuple[vocabularies.Collector, list[sharding.Shard]]:
    """Labels the corpus and writes the items of its shards; returns the counts of labels, and the shards."""
    directory = staging.scratch_directory(config.output_dir)
    labelled = chunks.label_corpus(listed, how, directory, run)
    collector, split_sizes = vocabularies.Collector(how.labeller.config), collections.Counter()
    for each in labelled:
        collector.merge(each.counts)
        split_sizes.update(each.split_sizes)
        for row in each.rejected:
            listed.reject(*row)
    _log_unclear(labelled, how.labeller.config.numbers)
    paths = [os.path.join(directory, each.file) for each in labelled]
    return collector, sharding.write(paths, split_sizes, config.num_shards, workspace, listed)


def _choose_runner(config: build_config.BuildConfig) -> Callable[..., list]:
    """Returns the function of (shards, find_finished, write, title) that writes what is not finished."""
    if config.runner:
        beam_pipeline.check(config.runner, config.beam_flags)
        beam = {"runner": config.runner, "beam_flags": config.beam_flags}
        return functools.partial(beam_pipeline.write_shards, **beam)
    return functools.partial(worker_pool.write_shards, num_workers=config.num_workers or cpu.count_cores())


def write_shards(
    shards: Sequence[sharding.Shard], settings: sharding.Settings, directory: str, run: Callable[..., list]
) -> list[shard_statistics.ShardStatistics]:
    """Writes the shards that are not finished yet, from their .jsonl files there; see worker_pool."""
    bound = dict(settings=settings, directory=directory)
    find_finished = functools.partial(shard_writer.load_finished, **bound)
    write = functools.partial(shard_writer.write_or_explain, **bound)
    return run(shards, find_finished, write, title="building")
