"""Builds a data directory from a corpus in five steps: list, label, assign to shards, write, publish."""

from __future__ import annotations

import collections
import dataclasses
import os
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import augmentation_config, codecs, copies
from tfrecord_builder.building import (
    catalog,
    chunks,
    cutting,
    listing,
    output_directory,
    resumable,
    shard_writer,
    sharding,
    summary,
)
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import dataset_info, recordings, schema
from tfrecord_builder.labels import homophones, labelling, marking, vocabularies
from tfrecord_builder.program import config_flags
from tfrecord_builder.storage import files

PLAIN = augmentation_config.AugmentationConfig()
SYLLABLES = labelling.LabelConfig()
OF_THE_TRAIN_SPLIT = vocabularies.VocabularyConfig()
_PAIRED = {registry.TEXT: "a syllable", registry.PUNCTUATED: "a mark"}  # what each character is paired with


@dataclasses.dataclass(frozen=True)
class BuildConfig(config_flags.Checked):
    """Settings for a build, except those for features, augmentation, labels and vocabularies."""

    corpus: str = config_flags.setting("manifest", "layout of the corpus", choices=sorted(registry.CORPORA))
    corpus_dir: tuple[str, ...] = config_flags.setting(
        (), "corpus directories, separated by commas (table and wenet also accept list files)", required=True
    )
    output_dir: str = config_flags.setting(
        "", "directory to write to; must be new or empty unless --overwrite is set", required=True
    )
    dev_fraction: float = config_flags.setting(
        0.0,
        "fraction of train (whole speakers) to move to dev if no dev split exists",
        minimum=0,
        maximum=0.5,
    )
    max_seconds: float = config_flags.setting(30.0, "recordings longer than this are rejected", positive=True)
    max_rejected: float = config_flags.setting(
        0.05, "the build fails if more than this fraction of the utterances is rejected", minimum=0, maximum=1
    )
    exclude: str = config_flags.setting(
        "", "table whose column id lists utterances to leave out, such as suspects.tsv of estimator_asr.align"
    )
    fbank_dtype: str = config_flags.setting(
        "float16", "data type of the stored features", choices=schema.FBANK_DTYPES
    )
    num_shards: int = config_flags.setting(16, "shards per split, at most one per utterance", minimum=1)
    num_workers: Optional[int] = config_flags.setting(
        None, "number of processes; default: one per core", minimum=1
    )
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)
    overwrite: bool = config_flags.setting(
        False, "replace the build in --output_dir once the new build is complete"
    )


def build(
    config: BuildConfig,
    frontend_config: frontend.FrontendConfig,
    augmentation: augmentation_config.AugmentationConfig = PLAIN,
    label_config: labelling.LabelConfig = SYLLABLES,
    vocabulary_config: vocabularies.VocabularyConfig = OF_THE_TRAIN_SPLIT,
) -> dataset_info.DatasetInfo:
    """Builds a data directory in config.output_dir; returns the contents of its dataset_info.json.

    Raises UserError if the corpus, the output directory or the frozen vocabulary cannot be used, too many
    utterances are rejected, or two flags contradict each other.
    """
    _check_text(config, frontend_config, augmentation, label_config)
    codecs.require(augmentation.codecs)
    sources = copies.find_sources(augmentation)
    if vocabulary_config.vocabulary_dir:
        vocabularies.check_token_type(vocabulary_config.vocabulary_dir, label_config.token_type)
    excluded = listing.read_excluded(config.exclude)
    shared = (*config.corpus_dir, config.output_dir)
    with (
        dispatch.connect(config.runner, config.num_workers, shared) as run,
        output_directory.reserve(config.output_dir, config.overwrite) as workspace,
    ):
        with catalog.open_new(workspace) as corpus:
            listing.list_corpus(config.corpus, config.corpus_dir, corpus, config.dev_fraction, excluded)
            training = corpus.utterances("train")
            bpe_model = vocabularies.make_subwords(label_config, vocabulary_config, training)
            labeller = _make_labeller(config, label_config, bpe_model, corpus)
            collector, shards = _label(config, labeller, augmentation, sources, corpus, workspace, run)
            summary.check_rejected(config.output_dir, config.max_rejected, corpus)
            saved = vocabularies.make(collector, vocabulary_config, bpe_model)
            summary.log_vocabulary(collector, saved)
            settings = _make_settings(config, frontend_config, saved, augmentation, sources)
            fingerprint = sharding.fingerprint(shards, settings)
            directory = output_directory.start(config.output_dir, fingerprint, config.overwrite)
            output_directory.take_over(
                (recordings.path_of(shard.file) for shard in shards), workspace, directory
            )
            find_cut = _cut(config, frontend_config.sample_rate, corpus, run)
            writer = shard_writer.RecordWriter(directory, settings, find_cut)
            statistics = run(shards, writer, title="building")
            corpus.reject(row for shard in statistics for row in shard.rejected)
            summary.check_rejected(config.output_dir, config.max_rejected, corpus)
            info = summary.write(directory, settings, label_config, statistics, corpus, collector.left_out)
            output_directory.publish(config.output_dir, info)
            summary.log_rejected(corpus)
    return info


def _label(
    config: BuildConfig,
    labeller: labelling.Labeller,
    augmentation: augmentation_config.AugmentationConfig,
    sources: copies.Sources,
    corpus: catalog.Catalog,
    workspace: str,
    run: dispatch.RunUnits,
) -> tuple[vocabularies.Collector, list[sharding.PlannedShard]]:
    """Labels the corpus and assigns its items to shards; returns the label counts and the shards."""
    directory, lists = output_directory.scratch_directory(config.output_dir), list(corpus.lists())
    output_directory.take_over((utterance_list.file for utterance_list in lists), workspace, directory)
    labelled = chunks.label_corpus(lists, labeller, augmentation, sources, directory, run)
    corpus.reject(row for chunk in labelled for row in chunk.rejected)
    collector, split_sizes = vocabularies.Collector(labeller.config), collections.Counter()
    for chunk in labelled:
        collector.merge(chunk.counts)
        split_sizes.update(chunk.split_sizes)
    summary.log_losses(labelled, labeller.config.numbers, collector.left_out)
    paths = [os.path.join(directory, chunk.file) for chunk in labelled]
    return collector, sharding.write(paths, split_sizes, config.num_shards, workspace, corpus)


def _make_labeller(
    config: BuildConfig,
    label_config: labelling.LabelConfig,
    bpe_model: Optional[bytes],
    corpus: catalog.Catalog,
) -> labelling.Labeller:
    if config.corpus != registry.PUNCTUATED:
        return labelling.Labeller(label_config, bpe_model)
    counts = homophones.count_hanzi(utterance.text for utterance in corpus.utterances("train"))
    return marking.MarkLabeller(label_config, homophones.Homophones(counts))


def _cut(
    config: BuildConfig, sample_rate: int, corpus: catalog.Catalog, run: dispatch.RunUnits
) -> Optional[shard_writer.FindCut]:
    """Cuts long recordings into utterances; returns a function that finds the waveform of an utterance."""
    directory = output_directory.scratch_directory(config.output_dir)
    cutter = cutting.RecordingCutter(directory, sample_rate, config.max_seconds)
    recordings_to_cut = cutter.plan(corpus)
    return cutter.find if recordings_to_cut and run(recordings_to_cut, cutter, title="decoding") else None


def _make_settings(
    config: BuildConfig,
    frontend_config: frontend.FrontendConfig,
    saved: vocabularies.Vocabularies,
    augmentation: augmentation_config.AugmentationConfig,
    sources: copies.Sources,
) -> sharding.RecordSettings:
    features = None if config.corpus in registry.WITHOUT_AUDIO else frontend_config
    copies_sha256 = "" if augmentation.is_plain else resumable.hash_json(sources.describe(augmentation))
    hashes = copies_sha256, files.sha256(config.exclude) if config.exclude else ""
    return sharding.RecordSettings(saved, features, config.fbank_dtype, config.max_seconds, *hashes)


def _check_text(
    config: BuildConfig,
    frontend_config: frontend.FrontendConfig,
    augmentation: augmentation_config.AugmentationConfig,
    label_config: labelling.LabelConfig,
) -> None:
    """Raises UserError if a text corpus is combined with audio flags or an unsuitable token type."""
    if config.corpus not in registry.WITHOUT_AUDIO:
        return
    changed = []
    for settings in (frontend_config, augmentation):
        defaults = dataclasses.asdict(type(settings)())
        values = dataclasses.asdict(settings)
        changed += [f"--{name}={value}" for name, value in values.items() if value != defaults[name]]
    if changed:
        raise errors.UserError(
            f"--corpus={config.corpus}: a text corpus has no audio features; "
            f"leave out {' and '.join(changed)}."
        )
    if label_config.token_type not in labelling.PAIRED_TOKEN_TYPES:
        raise errors.UserError(
            f"--token_type={label_config.token_type} does not support --corpus={config.corpus}, in which "
            f"each character is paired with {_PAIRED[config.corpus]}; use "
            f"{' or '.join(labelling.PAIRED_TOKEN_TYPES)}."
        )
