"""Builds a data directory from a corpus: list, label, assign to shards, write, publish."""

from __future__ import annotations

import collections
import functools
import os
import uuid
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.augmentation import augmentation_config, codecs, copies
from tfrecord_builder.building import (
    beam_pipeline,
    build_config,
    catalog,
    chunks,
    shard_writer,
    sharding,
    summary,
)
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.labels import labelling, vocabularies
from tfrecord_builder.output import output_directory, resumable, staging, worker_pool
from tfrecord_builder.runtime import cpu

PLAIN = augmentation_config.AugmentationConfig()
SYLLABLES = labelling.LabelConfig()
OF_THE_TRAIN_SPLIT = vocabularies.VocabularyConfig()


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
    sources = copies.find_sources(augmentation)
    if vocabulary_config.vocabulary_dir:
        vocabularies.check_token_type(vocabulary_config.vocabulary_dir, label_config.token_type)
    run = _choose_runner(config)
    with output_directory.reserve(config.output_dir, config.overwrite) as workspace:
        with catalog.open_new(os.path.join(workspace, "catalog.sqlite")) as corpus:
            catalog.list_corpus(_list_rows(config, run), config.corpus_dir, corpus, config.dev_fraction)
            training = corpus.utterances("train")
            bpe_model = vocabularies.make_subwords(label_config, vocabulary_config, training)
            labeller = labelling.Labeller(label_config, bpe_model)
            collector, shards = _label(config, labeller, augmentation, sources, corpus, workspace, run)
            summary.check_rejected(config, corpus)
            saved = vocabularies.make(collector, vocabulary_config, bpe_model)
            summary.log_vocabulary(collector, saved)
            settings = _make_settings(config, frontend_config, saved, augmentation, sources)
            fingerprint = sharding.fingerprint(shards, settings)
            directory = staging.start(config.output_dir, fingerprint, config.overwrite)
            staging.take_over((recordings.path_of(each.file) for each in shards), workspace, directory)
            written = run(shards, shard_writer.RecordWriter(directory, settings), title="building")
            _reject(written, corpus)
            summary.check_rejected(config, corpus)
            info = summary.write(directory, settings, label_config, written, corpus, collector.left_out)
            staging.publish(config.output_dir, info)
            summary.log_rejected(corpus)
    return info


def _list_rows(config: build_config.BuildConfig, run: Callable[..., list]) -> Iterator[catalog.Row]:
    """Yields the rows of the catalog; a runner's workers list each directory into a file."""
    if not config.runner:
        yield from map(catalog.to_row, registry.list_utterances(config.corpus, config.corpus_dir))
        return
    directory = staging.scratch_directory(config.output_dir)
    corpora = [beam_pipeline.CorpusDirectory(f"{i:05d}.rows", i) for i in range(len(config.corpus_dir))]
    lister = beam_pipeline.Lister(directory, config.corpus, config.corpus_dir, uuid.uuid4().hex)
    for listed in run(corpora, lister, title="listing"):
        for warning in listed.warnings:
            logging.warning("%s", warning)
        yield from catalog.read_rows(os.path.join(directory, listed.file), listed.sha256)
        if listed.error:
            raise errors.UserError(listed.error)


def _label(
    config: build_config.BuildConfig,
    labeller: labelling.Labeller,
    augmentation: augmentation_config.AugmentationConfig,
    sources: copies.Sources,
    corpus: catalog.Catalog,
    workspace: str,
    run: Callable[..., list],
) -> tuple[vocabularies.Collector, list[sharding.Shard]]:
    """Labels the corpus and writes the items of its shards; returns the counts of labels, and the shards."""
    directory = staging.scratch_directory(config.output_dir)
    labelled = chunks.label_corpus(corpus, labeller, augmentation, sources, directory, run)
    _reject(labelled, corpus)
    collector, split_sizes = vocabularies.Collector(labeller.config), collections.Counter()
    for each in labelled:
        collector.merge(each.counts)
        split_sizes.update(each.split_sizes)
    summary.log_losses(labelled, labeller.config.numbers, collector.left_out)
    paths = [os.path.join(directory, each.file) for each in labelled]
    return collector, sharding.write(paths, split_sizes, config.num_shards, workspace, corpus)


def _reject(written: Sequence[resumable.Written], corpus: catalog.Catalog) -> None:
    for each in written:
        corpus.reject(each.rejected)


def _make_settings(
    config: build_config.BuildConfig,
    frontend_config: frontend.FrontendConfig,
    saved: vocabularies.Vocabularies,
    augmentation: augmentation_config.AugmentationConfig,
    sources: copies.Sources,
) -> sharding.Settings:
    features = None if config.corpus == "text" else frontend_config
    copies_sha256 = "" if augmentation.is_plain else resumable.hash_json(sources.describe(augmentation))
    return sharding.Settings(saved, features, config.fbank_dtype, config.max_seconds, copies_sha256)


def _choose_runner(config: build_config.BuildConfig) -> Callable[..., list]:
    """Returns the function of (shards, writer, title) that writes what is not finished."""
    if config.runner:
        beam_pipeline.check(config.runner, config.beam_flags)
        beam = {"runner": config.runner, "beam_flags": config.beam_flags}
        return functools.partial(beam_pipeline.write_shards, **beam)
    return functools.partial(worker_pool.write_shards, num_workers=config.num_workers or cpu.count_cores())
