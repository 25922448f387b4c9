"""The files beside the shards: dataset_info.json, vocabularies, rejected.tsv and report.html."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building import build_config, catalog, sharding
from tfrecord_builder.data import dataset_info
from tfrecord_builder.labels import labelling
from tfrecord_builder.output import staging
from tfrecord_builder.records import shard_statistics
from tfrecord_builder.report import page
from tfrecord_builder.storage import files

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # a path may have them, a table may not


def check_rejected(config: build_config.BuildConfig, listed: catalog.Catalog) -> None:
    """Raises UserError, and leaves rejected.tsv, if too many utterances are rejected, or all of them."""
    reasons, num_listed = listed.reasons(), listed.count_candidates()
    num_rejected = sum(count for _, count in reasons)
    is_too_many = num_rejected / num_listed > config.max_rejected
    if not is_too_many and num_rejected < num_listed:
        return
    path = staging.failure_path(config.output_dir, dataset_info.REJECTED_FILE)
    write_rejected(path, listed)
    remedy = "fix the corpus or raise --max_rejected" if is_too_many else "fix the corpus"
    raise errors.UserError(
        f"--max_rejected: {num_rejected} of {num_listed} utterances are rejected, expected "
        f"{f'at most {config.max_rejected:.1%}' if is_too_many else 'some to remain'}: "
        f"{format_counts(reasons[:3])}; read {path}, {remedy}."
    )


def log_rejected(listed: catalog.Catalog) -> None:
    """Logs how many utterances were rejected, and why."""
    reasons = listed.reasons()
    if reasons:
        num_rejected, num_listed = sum(count for _, count in reasons), listed.count_candidates()
        logging.warning("%d of %d utterances rejected: %s", num_rejected, num_listed, format_counts(reasons))


def write_rejected(path: str, listed: catalog.Catalog) -> None:
    """Writes rejected.tsv: utterance id, split, reason and the path of the recording (empty for text)."""
    with files.writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("\t".join(dataset_info.REJECTED_COLUMNS) + "\n")
        for row in listed.rejected():
            file.write("\t".join(_CONTROL_CHARACTERS.sub(" ", each) for each in row) + "\n")


def format_counts(counts: Sequence[tuple[str, int]]) -> str:
    """Returns "what (count), ..."."""
    return ", ".join(f"{what} ({count})" for what, count in counts)


def write(
    directory: str,
    settings: sharding.Settings,
    label_config: labelling.LabelConfig,
    found: Sequence[shard_statistics.ShardStatistics],
    listed: catalog.Catalog,
) -> dataset_info.DatasetInfo:
    """Writes all of these files except dataset_info.json, which comes last of all.

    Returns:
        What goes into dataset_info.json.
    """
    saved, totals = settings.vocabularies, shard_statistics.add_up(found)
    splits = _make_split_infos(totals, found, listed.sentences())
    info = _make_info(settings, label_config, totals, splits, listed)
    rejected = os.path.join(directory, dataset_info.REJECTED_FILE)
    report = os.path.join(directory, dataset_info.REPORT_FILE)
    saved.save(directory)
    write_rejected(rejected, listed)
    page.write(report, info, totals, listed.rejected(), saved)
    hashes = {"rejected_sha256": files.sha256(rejected), "report_sha256": files.sha256(report)}
    return dataclasses.replace(info, **hashes)


def _make_info(
    settings: sharding.Settings,
    label_config: labelling.LabelConfig,
    totals: dict[str, shard_statistics.ShardStatistics],
    splits: dict[str, dataset_info.SplitInfo],
    listed: catalog.Catalog,
) -> dataset_info.DatasetInfo:
    saved = settings.vocabularies
    training = totals.get("train", shard_statistics.ShardStatistics())
    mean, stddev = training.feature_moments()
    known = saved.tokens.tokens[1:]  # <unk> is first
    described = [sharding.config_sha256(settings), dataclasses.asdict(label_config)]
    return dataset_info.DatasetInfo(
        frontend=settings.frontend,
        fbank_dtype=settings.fbank_dtype,
        token_type=label_config.token_type,
        tokens_sha256=saved.tokens.sha256,
        characters_sha256=saved.characters.sha256,
        readings_sha256=saved.readings.sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        splits=splits,
        num_rejected=sum(count for _, count in listed.reasons()),
        config_sha256=sharding.hash_json(described),
        bpe_sha256="" if saved.bpe is None else hashlib.sha256(saved.bpe).hexdigest(),
        token_counts=(training.unknown_tokens, *(training.token_counts[each] for each in known)),
    )


def _make_split_infos(
    totals: dict[str, shard_statistics.ShardStatistics],
    found: Sequence[shard_statistics.ShardStatistics],
    sentences: dict[str, tuple[int, dict[str, int]]],
) -> dict[str, dataset_info.SplitInfo]:
    return {
        split: shard_statistics.make_split_info(
            total, [each for each in found if each.split == split], *sentences.get(split, (0, {}))
        )
        for split, total in totals.items()
    }
