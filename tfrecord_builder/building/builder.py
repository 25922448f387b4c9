"""A corpus to a data directory: list, label, plan, write, publish."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator

from absl import logging

from tfrecord_builder import dataset_info, frontend
from tfrecord_builder.augmentation import augmentation_config
from tfrecord_builder.augmentation import sources as augmentation_sources
from tfrecord_builder.building import (
    beam_pipeline,
    build_config,
    catalog,
    items,
    listing,
    output_directory,
    rejections,
    shard_statistics,
    sharding,
    staging,
    summary,
    worker_pool,
)
from tfrecord_builder.labels import bpe, labelling, subwords, vocabularies

PLAIN = augmentation_config.AugmentationConfig()
SYLLABLES = labelling.LabelConfig()
OF_THE_TRAIN_SPLIT = vocabularies.VocabularyConfig()
_NUM_UNKNOWN_TOLD = 10


def build(
    config: build_config.BuildConfig,
    frontend_config: frontend.FrontendConfig,
    augmentation: augmentation_config.AugmentationConfig = PLAIN,
    label_config: labelling.LabelConfig = SYLLABLES,
    vocabulary_config: vocabularies.VocabularyConfig = OF_THE_TRAIN_SPLIT,
) -> dataset_info.DatasetInfo:
    """Builds config.output_dir.

    Returns:
      What dataset_info.json there says.

    Raises:
      UserError: the corpus, the output directory, the frozen vocabulary or the share of rejected utterances
        is not as it should be, or a flag does not fit another.
    """
    build_config.check_text(config, frontend_config, augmentation)
    sources = augmentation_sources.find_sources(augmentation)
    build_config.check_token_type(config, label_config)
    if vocabulary_config.vocabulary_dir:
        vocabularies.check_token_type(vocabulary_config.vocabulary_dir, label_config.token_type)
    write_shards = _choose_writer(config)
    with _open(config) as (workspace, spooled):
        listing.list_corpus(config.corpus, config.corpus_dir, spooled, config.dev_fraction)
        bpe_model = subwords.make(label_config, vocabulary_config, spooled)
        collector = _label(label_config, bpe_model, augmentation, sources, spooled)
        rejections.check(config, spooled)
        saved = vocabularies.make(collector, vocabulary_config, bpe_model)
        _tell_unknown(collector, saved)
        described = None if config.corpus == "text" else frontend_config
        settings = sharding.Settings(
            saved, described, config.fbank_dtype, config.max_seconds, _describe_copies(augmentation, sources)
        )
        shards = sharding.write(spooled, config.num_shards, workspace)
        fingerprint = sharding.fingerprint(shards, settings)
        directory = staging.start(config.output_dir, fingerprint, config.overwrite)
        staging.take_over((items.path_of(each.file) for each in shards), workspace, directory)
        found = write_shards(shards, settings, directory)
        rejections.take(found, spooled)
        rejections.check(config, spooled)
        info = summary.make_info(settings, label_config, found, spooled)
        info = summary.write(directory, info, settings.vocabularies, found, spooled)
        staging.publish(config.output_dir, info)
        rejections.tell(spooled)
    return info


@contextlib.contextmanager
def _open(config: build_config.BuildConfig) -> Iterator[tuple[str, catalog.Spool]]:
    """Holds the output directory against others, and gives a place for scratch files and an empty spool."""
    with output_directory.reserve(config.output_dir, config.overwrite) as workspace:
        with catalog.open_new(os.path.join(workspace, "spool.sqlite")) as spooled:
            yield workspace, spooled


def _label(
    label_config: labelling.LabelConfig,
    bpe_model: bytes | None,
    augmentation: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
    spooled: catalog.Spool,
) -> vocabularies.Collector:
    """Labels the corpus into items; gives what the labels hold."""
    collector = vocabularies.Collector(label_config)
    labeller = labelling.Labeller(label_config, None if bpe_model is None else bpe.BpeModel(bpe_model))
    for item in listing.label_corpus(spooled, labeller):
        collector.add(item.labels, item.utterance.split)
        for copy in listing.copies(item, augmentation, sources):
            spooled.add_item(copy)
    return collector


def _tell_unknown(collector: vocabularies.Collector, saved: vocabularies.Vocabularies) -> None:
    for kind in ("tokens", "characters"):
        found, known = getattr(collector, kind), getattr(saved, kind)
        unknown = vocabularies.most_frequent_unknown(found, known, _NUM_UNKNOWN_TOLD)
        if unknown:
            logging.warning(
                "most frequent %s that the vocabulary lacks: %s", kind, rejections.describe(unknown)
            )


def _describe_copies(
    augmentation: augmentation_config.AugmentationConfig, sources: augmentation_sources.Sources
) -> str:
    if augmentation.is_plain:
        return ""
    return sharding.hash_json([dataclasses.asdict(augmentation), sources.describe()])


def _choose_writer(config: build_config.BuildConfig) -> Callable[..., list[shard_statistics.ShardStatistics]]:
    """Gives the function (shards, settings, directory) that writes what is not finished."""
    if config.runner:
        beam_pipeline.check(config.runner, config.beam_flags)
        beam = {"runner": config.runner, "beam_flags": config.beam_flags}
        return functools.partial(beam_pipeline.write_shards, **beam)
    num_cores = len(os.sched_getaffinity(0))
    return functools.partial(worker_pool.write_shards, num_workers=config.num_workers or num_cores)
