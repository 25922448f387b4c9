"""A corpus to a data directory: list, label, plan, write, publish."""

from __future__ import annotations

import collections
import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Optional

import tqdm
from absl import logging

from tfrecord_builder import (
    checks,
    config_flags,
    dataset_info,
    errors,
    frontend,
    labels,
    output_directory,
    plan,
    schema,
    shard_statistics,
    vocabularies,
    writer,
)
from tfrecord_builder.corpora import registry

Rejections = list[tuple[str, str, str]]  # utterance_id, split, reason


@dataclasses.dataclass(frozen=True)
class BuildConfig:
    """What to build; how the features are made stands in frontend.FrontendConfig."""

    corpus: str = config_flags.setting("manifest", "layout of the corpus", choices=sorted(registry.CORPORA))
    corpus_dir: tuple[str, ...] = config_flags.setting(
        (), "where the corpus lies; several directories with commas"
    )
    output_dir: str = config_flags.setting("", "directory to make; new or empty, unless --overwrite")
    unit: str = config_flags.setting("syllable", "what a token is", choices=labels.UNITS)
    vocabulary: str = config_flags.setting(
        "", "tokens.txt to reuse as it is, instead of the train split's tokens"
    )
    vocabulary_dir: str = config_flags.setting(
        "", "data or model directory whose tokens.txt, characters.txt and readings.tsv to reuse as they are"
    )
    max_seconds: float = config_flags.setting(30.0, "longer recordings are rejected", positive=True)
    max_rejected: float = config_flags.setting(
        0.05, "share of rejected utterances above which the build fails", minimum=0, maximum=1
    )
    fbank_dtype: str = config_flags.setting("float16", "how features are stored", choices=schema.FBANK_DTYPES)
    num_shards: int = config_flags.setting(
        16, "files a split; fewer where it has fewer utterances", minimum=1
    )
    num_workers: Optional[int] = config_flags.setting(None, "processes; one a core if not given", minimum=1)
    overwrite: bool = config_flags.setting(
        False, "replace a build that is in --output_dir, once the new one is whole"
    )

    def __post_init__(self):
        config_flags.validate(self)
        for name in ("corpus_dir", "output_dir"):
            if not getattr(self, name):
                raise errors.UserError(f"--{name}: it is missing, expected a directory; pass --{name}=DIR.")
        if self.vocabulary and self.vocabulary_dir:
            raise errors.UserError(
                "--vocabulary, --vocabulary_dir: both are given, expected one; the directory has tokens too."
            )
        if self.corpus == "text" and self.unit != "syllable":
            raise errors.UserError(
                f"--corpus=text, --unit={self.unit}: text pairs characters with syllables, "
                "expected --unit=syllable; leave --unit out."
            )


def build(config: BuildConfig, frontend_config: frontend.FrontendConfig) -> dataset_info.DatasetInfo:
    """Builds config.output_dir.

    Returns:
      What dataset_info.json there says.

    Raises:
      UserError: the corpus, the output directory, the frozen vocabulary or the share of rejected utterances
        is not as it should be, or a flag does not fit another.
    """
    _check_frontend(config, frontend_config)
    if config.vocabulary_dir:
        vocabularies.check_unit(config.vocabulary_dir, config.unit)
    output_directory.check_usable(config.output_dir, config.overwrite)
    items, rejected = _label_corpus(config)
    num_listed = len(items) + len(rejected)
    with output_directory.reserve(config.output_dir, config.overwrite):
        _check_rejected(config, rejected, num_listed)
        settings = plan.Settings(
            vocabularies=_make_vocabularies(config, items),
            frontend=None if config.corpus == "text" else frontend_config,
            fbank_dtype=config.fbank_dtype,
            max_seconds=config.max_seconds,
        )
        shards = plan.make_shards(items, config.num_shards)
        fingerprint = plan.fingerprint(shards, settings)
        staging = output_directory.start(config.output_dir, fingerprint, config.overwrite)
        found = writer.write_shards(shards, settings, staging, config.num_workers or _num_cores())
        rejected += [tuple(row) for shard in found for row in shard.rejected]
        _check_rejected(config, rejected, num_listed)
        settings.vocabularies.save(staging)
        _write_rejected(os.path.join(staging, dataset_info.REJECTED_FILE), rejected)
        info = _make_info(config, settings, found, len(rejected))
        output_directory.publish(config.output_dir, info)
    if rejected:
        logging.warning("%d of %d utterances rejected: %s", len(rejected), num_listed, _describe(rejected))
    return info


def _check_frontend(config: BuildConfig, frontend_config: frontend.FrontendConfig) -> None:
    """Raises UserError for a flag of the features where there are none to make."""
    usual, given = (dataclasses.asdict(each) for each in (frontend.FrontendConfig(), frontend_config))
    changed = [f"--{name}={value}" for name, value in given.items() if value != usual[name]]
    if config.corpus == "text" and changed:
        raise errors.UserError(
            f"--corpus=text, {', '.join(changed)}: text has no features, expected no flag of theirs; "
            f"leave {changed[0]} out."
        )


def _label_corpus(config: BuildConfig) -> tuple[list[plan.Item], Rejections]:
    """Lists and labels the corpus; what has no usable labels is rejected at once."""
    utterances = registry.list_utterances(config.corpus, config.corpus_dir)
    if not utterances:
        raise errors.UserError(
            f"--corpus_dir: {', '.join(config.corpus_dir)}: it lists no utterance, expected some."
        )
    items, rejected = [], []
    for utterance in tqdm.tqdm(utterances, unit="utt", desc="labelling", disable=not sys.stderr.isatty()):
        found = labels.make_labels(utterance, config.unit)
        try:
            checks.check_labels(found, is_text=utterance.audio is None)
            items.append(plan.Item(utterance, found))
        except checks.Rejected as reason:
            rejected.append((utterance.utterance_id, utterance.split, str(reason)))
    if not any(utterance.split == "dev" for utterance in utterances):
        logging.warning(
            "%s: there is no dev split, so training on this alone has nothing to be measured on; "
            "none is made up here: mark some utterances of the corpus as dev.",
            ", ".join(config.corpus_dir),
        )
    return items, rejected


def _make_vocabularies(config: BuildConfig, items: Sequence[plan.Item]) -> vocabularies.Vocabularies:
    training = [item.labels for item in items if item.utterance.split == "train"]
    return vocabularies.make(training, config.vocabulary, config.vocabulary_dir)


def _check_rejected(config: BuildConfig, rejected: Rejections, num_listed: int) -> None:
    """Raises UserError, and leaves rejected.tsv for reading, if too much was rejected."""
    if len(rejected) / num_listed <= config.max_rejected:
        return
    path = output_directory.failure_path(config.output_dir, dataset_info.REJECTED_FILE)
    _write_rejected(path, rejected)
    raise errors.UserError(
        f"--max_rejected: {len(rejected)} of {num_listed} utterances are rejected, expected at most "
        f"{config.max_rejected:.1%}: {_describe(rejected, 3)}; "
        f"read {path}, mend the corpus or raise --max_rejected."
    )


def _describe(rejected: Rejections, limit: int | None = None) -> str:
    """Gives the most frequent reasons with their counts."""
    counts = collections.Counter(reason for _, _, reason in rejected).most_common(limit)
    return ", ".join(f"{reason} ({count})" for reason, count in counts)


def _write_rejected(path: str, rejected: Rejections) -> None:
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        file.write("utterance_id\tsplit\treason\n")
        file.writelines("\t".join(row) + "\n" for row in rejected)
    os.replace(f"{path}.tmp", path)


def _make_info(
    config: BuildConfig,
    settings: plan.Settings,
    shards: Sequence[shard_statistics.ShardStatistics],
    num_rejected: int,
) -> dataset_info.DatasetInfo:
    mean, stddev = shard_statistics.feature_moments([shard for shard in shards if shard.split == "train"])
    return dataset_info.DatasetInfo(
        frontend=settings.frontend,
        fbank_dtype=config.fbank_dtype,
        unit=config.unit,
        tokens_sha256=settings.vocabularies.tokens.sha256,
        characters_sha256=settings.vocabularies.characters.sha256,
        readings_sha256=settings.vocabularies.readings.sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        splits=shard_statistics.split_infos(shards),
        num_rejected=num_rejected,
    )


def _num_cores() -> int:
    return len(os.sched_getaffinity(0))
