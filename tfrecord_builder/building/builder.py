"""Builds a data directory from a corpus: list, label, assign to shards, write, publish."""

from __future__ import annotations

import collections
import os

from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import augmentation_config, codecs, copies
from tfrecord_builder.building import (
    build_config,
    catalog,
    chunks,
    listing,
    resumable,
    shard_writer,
    sharding,
    summary,
)
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.building.output import output_directory, staging
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.labels import labelling, vocabularies

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
    """Builds the data directory config.output_dir.

    Returns:
        The contents of the new dataset_info.json.

    Raises:
        UserError: the corpus, the output directory or the frozen vocabulary cannot be used, too many
            utterances are rejected, or two flags contradict each other.
    """
    build_config.check_text(config, frontend_config, augmentation, label_config)
    codecs.require(augmentation.codecs)
    sources = copies.find_sources(augmentation)
    if vocabulary_config.vocabulary_dir:
        vocabularies.check_token_type(vocabulary_config.vocabulary_dir, label_config.token_type)
    shared = (*config.corpus_dir, config.output_dir)
    with (
        dispatch.connect(config.runner, config.num_workers, shared) as run,
        output_directory.reserve(config.output_dir, config.overwrite) as workspace,
    ):
        with catalog.open_new(workspace) as corpus:
            listing.list_corpus(config.corpus, config.corpus_dir, corpus, config.dev_fraction)
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
            staging.take_over((recordings.path_of(shard.file) for shard in shards), workspace, directory)
            statistics = run(shards, shard_writer.RecordWriter(directory, settings), title="building")
            corpus.reject(row for shard in statistics for row in shard.rejected)
            summary.check_rejected(config, corpus)
            info = summary.write(directory, settings, label_config, statistics, corpus, collector.left_out)
            staging.publish(config.output_dir, info)
            summary.log_rejected(corpus)
    return info


def _label(
    config: build_config.BuildConfig,
    labeller: labelling.Labeller,
    augmentation: augmentation_config.AugmentationConfig,
    sources: copies.Sources,
    corpus: catalog.Catalog,
    workspace: str,
    run: dispatch.RunUnits,
) -> tuple[vocabularies.Collector, list[sharding.PlannedShard]]:
    """Labels the corpus and assigns its items to shards; returns the label counts and the shards."""
    directory, lists = staging.scratch_directory(config.output_dir), list(corpus.lists())
    staging.take_over((utterance_list.file for utterance_list in lists), workspace, directory)
    labelled = chunks.label_corpus(lists, labeller, augmentation, sources, directory, run)
    corpus.reject(row for chunk in labelled for row in chunk.rejected)
    collector, split_sizes = vocabularies.Collector(labeller.config), collections.Counter()
    for chunk in labelled:
        collector.merge(chunk.counts)
        split_sizes.update(chunk.split_sizes)
    summary.log_losses(labelled, labeller.config.numbers, collector.left_out)
    paths = [os.path.join(directory, chunk.file) for chunk in labelled]
    return collector, sharding.write(paths, split_sizes, config.num_shards, workspace, corpus)


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
