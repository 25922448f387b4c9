"""A corpus to a data directory: list, label, plan, write, publish."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import os
import sys
from collections.abc import Sequence
from typing import Optional

import tqdm
from absl import logging

from tfrecord_builder import (
    bpe,
    checks,
    config_flags,
    dataset_info,
    errors,
    frontend,
    labels,
    manifest,
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


def build(
    config: BuildConfig,
    frontend_config: frontend.FrontendConfig,
    label_config: labels.LabelConfig,
    vocabulary_config: vocabularies.VocabularyConfig,
) -> dataset_info.DatasetInfo:
    """Builds config.output_dir.

    Returns:
      What dataset_info.json there says.

    Raises:
      UserError: the corpus, the output directory, the frozen vocabulary or the share of rejected utterances
        is not as it should be, or a flag does not fit another.
    """
    _check_frontend(config, frontend_config)
    _check_unit(config, label_config)
    if vocabulary_config.vocabulary_dir:
        vocabularies.check_unit(vocabulary_config.vocabulary_dir, label_config.unit)
    output_directory.check_usable(config.output_dir, config.overwrite)
    utterances = _list_corpus(config)
    bpe_model = _get_bpe(utterances, label_config, vocabulary_config)
    items, rejected = _label_corpus(utterances, label_config, bpe_model)
    num_listed = len(items) + len(rejected)
    with output_directory.reserve(config.output_dir, config.overwrite):
        _check_rejected(config, rejected, num_listed)
        settings = plan.Settings(
            vocabularies=_make_vocabularies(items, label_config, vocabulary_config, bpe_model),
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
        info = _make_info(config, label_config.unit, settings, found, len(rejected))
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


def _check_unit(config: BuildConfig, label_config: labels.LabelConfig) -> None:
    """Raises UserError for text with a unit whose tokens do not pair with characters."""
    units = labels.PAIRED_UNITS
    if config.corpus == "text" and label_config.unit not in units:
        raise errors.UserError(
            f"--corpus=text, --unit={label_config.unit}: text pairs characters with syllables, "
            f"expected --unit={' or '.join(units)}; leave --unit out."
        )


def _list_corpus(config: BuildConfig) -> list[manifest.Utterance]:
    utterances = registry.list_utterances(config.corpus, config.corpus_dir)
    if not utterances:
        raise errors.UserError(
            f"--corpus_dir: {', '.join(config.corpus_dir)}: it lists no utterance, expected some."
        )
    if not any(utterance.split == "dev" for utterance in utterances):
        logging.warning(
            "%s: there is no dev split, so training on this alone has nothing to be measured on; "
            "none is made up here: mark some utterances of the corpus as dev.",
            ", ".join(config.corpus_dir),
        )
    return utterances


def _get_bpe(
    utterances: Sequence[manifest.Utterance],
    label_config: labels.LabelConfig,
    vocabulary_config: vocabularies.VocabularyConfig,
) -> bytes | None:
    """Gives the frozen sentencepiece model, or one of the train split; None for another unit."""
    frozen = vocabularies.load_bpe(vocabulary_config, label_config.unit)
    if frozen is not None or label_config.unit != "bpe":
        return frozen
    training = (labels.make_transcript(each, label_config) for each in utterances if each.split == "train")
    return bpe.train(training, label_config.bpe_size)


def _label_corpus(
    utterances: Sequence[manifest.Utterance], label_config: labels.LabelConfig, bpe_model: bytes | None
) -> tuple[list[plan.Item], Rejections]:
    """Labels the corpus; what has no usable labels is rejected at once."""
    labeller = labels.Labeller(label_config, bpe.BpeModel(bpe_model) if bpe_model is not None else None)
    items, rejected = [], []
    for utterance in tqdm.tqdm(utterances, unit="utt", desc="labelling", disable=not sys.stderr.isatty()):
        found = labeller(utterance)
        try:
            checks.check_labels(found, is_text=utterance.audio is None)
            items.append(plan.Item(utterance, found))
        except checks.Rejected as reason:
            rejected.append((utterance.utterance_id, utterance.split, str(reason)))
    return items, rejected


def _make_vocabularies(
    items: Sequence[plan.Item],
    label_config: labels.LabelConfig,
    vocabulary_config: vocabularies.VocabularyConfig,
    bpe_model: bytes | None,
) -> vocabularies.Vocabularies:
    collector = vocabularies.Collector(label_config)
    for item in items:
        collector.add(item.labels, item.utterance.split)
    made = vocabularies.make(collector, vocabulary_config, bpe_model)
    for kind in ("tokens", "characters"):
        unknown = vocabularies.most_frequent_unknown(getattr(collector, kind), getattr(made, kind), 10)
        if unknown:
            shown = ", ".join(f"{token} ({count})" for token, count in unknown)
            logging.warning("most frequent %s that the vocabulary lacks: %s", kind, shown)
    return made


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
    unit: str,
    settings: plan.Settings,
    shards: Sequence[shard_statistics.ShardStatistics],
    num_rejected: int,
) -> dataset_info.DatasetInfo:
    saved = settings.vocabularies
    mean, stddev = shard_statistics.feature_moments([shard for shard in shards if shard.split == "train"])
    return dataset_info.DatasetInfo(
        frontend=settings.frontend,
        fbank_dtype=config.fbank_dtype,
        unit=unit,
        tokens_sha256=saved.tokens.sha256,
        characters_sha256=saved.characters.sha256,
        readings_sha256=saved.readings.sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        splits=shard_statistics.split_infos(shards),
        num_rejected=num_rejected,
        bpe_sha256="" if saved.bpe is None else hashlib.sha256(saved.bpe).hexdigest(),
    )


def _num_cores() -> int:
    return len(os.sched_getaffinity(0))
