"""A corpus to a data directory: list, label, plan, write, publish."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from tfrecord_builder import (
    augmentation_config,
    augmentation_sources,
    bpe,
    build_config,
    dataset_info,
    errors,
    files,
    frontend,
    labels,
    listing,
    output_directory,
    pieces,
    plan,
    shard_statistics,
    spool,
    vocabularies,
    writer,
)

PLAIN = augmentation_config.AugmentationConfig()
SYLLABLES = labels.LabelConfig()
OF_THE_TRAIN_SPLIT = vocabularies.VocabularyConfig()
_NUM_UNKNOWN_TOLD = 10


def build(
    config: build_config.BuildConfig,
    frontend_config: frontend.FrontendConfig,
    augmentation: augmentation_config.AugmentationConfig = PLAIN,
    label_config: labels.LabelConfig = SYLLABLES,
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
    build_config.check_unit(config, label_config)
    if vocabulary_config.vocabulary_dir:
        vocabularies.check_unit(vocabulary_config.vocabulary_dir, label_config.unit)
    with _open(config) as (workspace, spooled):
        listing.list_corpus(config.corpus, config.corpus_dir, spooled)
        bpe_model = pieces.make(label_config, vocabulary_config, spooled)
        collector = _label(label_config, bpe_model, augmentation, sources, spooled)
        _check_rejected(config, spooled)
        saved = vocabularies.make(collector, vocabulary_config, bpe_model)
        _tell_unknown(collector, saved)
        described = None if config.corpus == "text" else frontend_config
        settings = plan.Settings(
            saved, described, config.fbank_dtype, config.max_seconds, _describe_copies(augmentation, sources)
        )
        shards = plan.write(spooled, config.num_shards, workspace)
        fingerprint = plan.fingerprint(shards, settings)
        staging = output_directory.start(config.output_dir, fingerprint, config.overwrite)
        output_directory.take_over((plan.items_file(each.file) for each in shards), workspace, staging)
        found = writer.write_shards(shards, settings, staging, config.num_workers or _num_cores())
        _reject_what_the_shards_did(found, spooled)
        _check_rejected(config, spooled)
        info = _make_info(config, label_config.unit, settings, found, spooled)
        _write_companions(staging, settings, spooled)
        output_directory.publish(config.output_dir, info)
        _tell_rejected(spooled)
    return info


@contextlib.contextmanager
def _open(config: build_config.BuildConfig) -> Iterator[tuple[str, spool.Spool]]:
    """Holds the output directory against others, and gives a place for scratch files and an empty spool."""
    with output_directory.reserve(config.output_dir, config.overwrite) as workspace:
        with spool.open_new(os.path.join(workspace, "spool.sqlite")) as spooled:
            yield workspace, spooled


def _label(
    label_config: labels.LabelConfig,
    bpe_model: bytes | None,
    augmentation: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
    spooled: spool.Spool,
) -> vocabularies.Collector:
    """Labels the corpus into items; gives what the labels hold."""
    collector = vocabularies.Collector(label_config)
    labeller = labels.Labeller(label_config, None if bpe_model is None else bpe.BpeModel(bpe_model))
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
            logging.warning("most frequent %s that the vocabulary lacks: %s", kind, _describe(unknown))


def _describe_copies(
    augmentation: augmentation_config.AugmentationConfig, sources: augmentation_sources.Sources
) -> str:
    if augmentation.is_plain:
        return ""
    return plan.hash_json([dataclasses.asdict(augmentation), sources.describe()])


def _reject_what_the_shards_did(
    found: Iterable[shard_statistics.ShardStatistics], spooled: spool.Spool
) -> None:
    for statistics in found:
        for row in statistics.rejected:
            spooled.reject(*row)


def _check_rejected(config: build_config.BuildConfig, spooled: spool.Spool) -> None:
    """Raises UserError, and leaves rejected.tsv for reading, if too much was rejected."""
    reasons, num_listed = spooled.reasons(), spooled.count_listed()
    num_rejected = sum(count for _, count in reasons)
    if num_rejected / num_listed <= config.max_rejected:
        return
    path = output_directory.failure_path(config.output_dir, dataset_info.REJECTED_FILE)
    _write_rejected(path, spooled)
    raise errors.UserError(
        f"--max_rejected: {num_rejected} of {num_listed} utterances are rejected, expected at most "
        f"{config.max_rejected:.1%}: {_describe(reasons[:3])}; "
        f"read {path}, mend the corpus or raise --max_rejected."
    )


def _tell_rejected(spooled: spool.Spool) -> None:
    reasons = spooled.reasons()
    if reasons:
        num_rejected = sum(count for _, count in reasons)
        logging.warning(
            "%d of %d utterances rejected: %s", num_rejected, spooled.count_listed(), _describe(reasons)
        )


def _describe(reasons: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{reason} ({count})" for reason, count in reasons)


def _write_companions(staging: str, settings: plan.Settings, spooled: spool.Spool) -> None:
    settings.vocabularies.save(staging)
    _write_rejected(os.path.join(staging, dataset_info.REJECTED_FILE), spooled)


def _write_rejected(path: str, spooled: spool.Spool) -> None:
    with files.writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("utterance_id\tsplit\treason\n")
        file.writelines("\t".join(row[:3]) + "\n" for row in spooled.rejected())


def _make_info(
    config: build_config.BuildConfig,
    unit: str,
    settings: plan.Settings,
    found: Sequence[shard_statistics.ShardStatistics],
    spooled: spool.Spool,
) -> dataset_info.DatasetInfo:
    saved = settings.vocabularies
    mean, stddev = shard_statistics.feature_moments([shard for shard in found if shard.split == "train"])
    return dataset_info.DatasetInfo(
        frontend=settings.frontend,
        fbank_dtype=config.fbank_dtype,
        unit=unit,
        tokens_sha256=saved.tokens.sha256,
        characters_sha256=saved.characters.sha256,
        readings_sha256=saved.readings.sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        splits=_with_sentences(shard_statistics.split_infos(found), spooled.sentences()),
        num_rejected=sum(count for _, count in spooled.reasons()),
        config_sha256=plan.settings_sha256(settings),
        bpe_sha256="" if saved.bpe is None else hashlib.sha256(saved.bpe).hexdigest(),
    )


def _with_sentences(
    splits: dict[str, dataset_info.SplitInfo], sentences: spool.Sentences
) -> dict[str, dataset_info.SplitInfo]:
    return {
        name: dataclasses.replace(
            split,
            num_sentences=sentences.counts.get(name, 0),
            shared_sentences=sentences.shared.get(name, {}),
        )
        for name, split in splits.items()
    }


def _num_cores() -> int:
    return len(os.sched_getaffinity(0))
