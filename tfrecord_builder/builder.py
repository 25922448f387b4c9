"""A corpus to a data directory: list, label, plan, write, publish."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from tfrecord_builder import (
    augmentation_config,
    augmentation_sources,
    build_config,
    dataset_info,
    errors,
    files,
    frontend,
    items,
    labels,
    listing,
    output_directory,
    plan,
    shard_statistics,
    spool,
    vocabularies,
    writer,
)
from tfrecord_builder.report import page

PLAIN = augmentation_config.AugmentationConfig()


def build(
    config: build_config.BuildConfig,
    frontend_config: frontend.FrontendConfig,
    augmentation: augmentation_config.AugmentationConfig = PLAIN,
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
    if config.vocabulary_dir:
        vocabularies.check_unit(config.vocabulary_dir, config.unit)
    with _open(config) as (workspace, spooled):
        listing.list_corpus(config.corpus, config.corpus_dir, spooled)
        training = _label(config, augmentation, sources, spooled)
        _check_rejected(config, spooled)
        saved = vocabularies.make(training, config.vocabulary, config.vocabulary_dir)
        described = None if config.corpus == "text" else frontend_config
        settings = plan.Settings(
            saved, described, config.fbank_dtype, config.max_seconds, _describe_copies(augmentation, sources)
        )
        shards = plan.write(spooled, config.num_shards, workspace)
        fingerprint = plan.fingerprint(shards, settings)
        staging = output_directory.start(config.output_dir, fingerprint, config.overwrite)
        output_directory.take_over((items.path_of(each.file) for each in shards), workspace, staging)
        found = writer.write_shards(shards, settings, staging, config.num_workers or _num_cores())
        _reject_what_the_shards_did(found, spooled)
        _check_rejected(config, spooled)
        info = _make_info(config, settings, found, spooled)
        _write_companions(staging, settings, info, found, spooled)
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
    config: build_config.BuildConfig,
    augmentation: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
    spooled: spool.Spool,
) -> list[labels.Labels]:
    """Labels the corpus into items; gives the labels of the training split."""
    training = []
    for item in listing.label_corpus(spooled, lambda utterance: labels.make_labels(utterance, config.unit)):
        if item.utterance.split == "train":
            training.append(item.labels)
        for copy in listing.copies(item, augmentation, sources):
            spooled.add_item(copy)
    return training


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


def _write_companions(
    staging: str,
    settings: plan.Settings,
    info: dataset_info.DatasetInfo,
    found: Sequence[shard_statistics.ShardStatistics],
    spooled: spool.Spool,
) -> None:
    settings.vocabularies.save(staging)
    _write_rejected(os.path.join(staging, dataset_info.REJECTED_FILE), spooled)
    report_file = os.path.join(staging, dataset_info.REPORT_FILE)
    page.write(report_file, info, found, spooled.rejected(), settings.vocabularies)


def _write_rejected(path: str, spooled: spool.Spool) -> None:
    with files.writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("utterance_id\tsplit\treason\n")
        file.writelines("\t".join(row[:3]) + "\n" for row in spooled.rejected())


def _make_info(
    config: build_config.BuildConfig,
    settings: plan.Settings,
    found: Sequence[shard_statistics.ShardStatistics],
    spooled: spool.Spool,
) -> dataset_info.DatasetInfo:
    mean, stddev = shard_statistics.feature_moments([shard for shard in found if shard.split == "train"])
    return dataset_info.DatasetInfo(
        frontend=settings.frontend,
        fbank_dtype=config.fbank_dtype,
        unit=config.unit,
        tokens_sha256=settings.vocabularies.tokens.sha256,
        characters_sha256=settings.vocabularies.characters.sha256,
        readings_sha256=settings.vocabularies.readings.sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        splits=_with_sentences(shard_statistics.split_infos(found), spooled.sentences()),
        num_rejected=sum(count for _, count in spooled.reasons()),
        config_sha256=plan.settings_sha256(settings),
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
