"""What lies beside the shards of a build and tells of them: info, vocabularies, the rejected, the report."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence

from tfrecord_builder import dataset_info, files
from tfrecord_builder.building import catalog, rejections, shard_statistics, sharding
from tfrecord_builder.labels import labelling, vocabularies
from tfrecord_builder.report import page


def make_info(
    settings: sharding.Settings,
    label_config: labelling.LabelConfig,
    found: Sequence[shard_statistics.ShardStatistics],
    spooled: catalog.Spool,
) -> dataset_info.DatasetInfo:
    """Adds up what dataset_info.json says."""
    saved = settings.vocabularies
    mean, stddev = shard_statistics.feature_moments([shard for shard in found if shard.split == "train"])
    return dataset_info.DatasetInfo(
        frontend=settings.frontend,
        fbank_dtype=settings.fbank_dtype,
        token_type=label_config.token_type,
        tokens_sha256=saved.tokens.sha256,
        characters_sha256=saved.characters.sha256,
        readings_sha256=saved.readings.sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        splits=_with_sentences(shard_statistics.split_infos(found), spooled.sentences()),
        num_rejected=sum(count for _, count in spooled.reasons()),
        config_sha256=sharding.hash_json(
            [sharding.config_sha256(settings), dataclasses.asdict(label_config)]
        ),
        bpe_sha256="" if saved.bpe is None else hashlib.sha256(saved.bpe).hexdigest(),
    )


def write(
    directory: str,
    info: dataset_info.DatasetInfo,
    saved: vocabularies.Vocabularies,
    found: Sequence[shard_statistics.ShardStatistics],
    spooled: catalog.Spool,
) -> dataset_info.DatasetInfo:
    """Writes everything but dataset_info.json, which comes last of all.

    Returns:
      What goes into that, with the hashes of what was written.
    """
    rejected, report = (
        os.path.join(directory, name) for name in (dataset_info.REJECTED_FILE, dataset_info.REPORT_FILE)
    )
    saved.save(directory)
    rejections.write(rejected, spooled)
    page.write(report, info, found, spooled.rejected(), saved)
    hashes = {"rejected_sha256": files.sha256(rejected), "report_sha256": files.sha256(report)}
    return dataclasses.replace(info, **hashes)


def _with_sentences(
    splits: dict[str, dataset_info.SplitInfo], sentences: catalog.Sentences
) -> dict[str, dataset_info.SplitInfo]:
    return {
        name: dataclasses.replace(
            split,
            num_sentences=sentences.counts.get(name, 0),
            shared_sentences=sentences.shared.get(name, {}),
        )
        for name, split in splits.items()
    }
