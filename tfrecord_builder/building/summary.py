"""Summarises a build: writes the files next to the shards, and warns about labels and rejections."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import os
from collections.abc import Sequence

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building import catalog, chunks, output_directory, resumable, shard_statistics, sharding
from tfrecord_builder.building.report import page
from tfrecord_builder.data import dataset_info
from tfrecord_builder.labels import labelling, normalisation, vocabularies
from tfrecord_builder.storage import files

_NUM_LOGGED = 10
_MIN_TRADITIONAL = 10  # distinct characters that cause a warning; even simplified text has a few (乾 in 乾隆)
_UNCLEAR = {
    "keep": "--numbers=keep: numbers in %d transcript(s) lose points, signs or units in the labels (12.5%% "
    "becomes 1 2 5), for example %s; pass --numbers=read to spell out numbers (see docs/numbers.md)",
    "read": "--numbers=read: numbers in %d transcript(s) may be read differently from what was said (a "
    "hyphen as minus, 3-1 as a range, 24/7 as a fraction, a sign left out), for example %s; write such "
    "numbers in hanzi",
}


def check_rejected(output_dir: str, max_rejected: float, corpus: catalog.Catalog) -> None:
    """Writes rejected.tsv and raises UserError if all or too many utterances were rejected.

    Utterances that --exclude leaves out do not count.
    """
    counts = dict(corpus.reasons())
    num_candidates = corpus.count_candidates() - counts.pop(catalog.EXCLUDED, 0)
    num_rejected = sum(counts.values())
    is_too_many = num_rejected / num_candidates > max_rejected
    if not is_too_many and num_rejected < num_candidates:
        return
    path = output_directory.failure_path(output_dir, dataset_info.REJECTED_FILE)
    _write_rejected(path, corpus)
    remedy = "fix the corpus or raise --max_rejected" if is_too_many else "fix the corpus"
    raise errors.UserError(
        f"--max_rejected: {num_rejected} of {num_candidates} utterances were rejected, "
        f"{f'but the limit is {max_rejected:.1%}' if is_too_many else 'so no data is left'}: "
        f"{_format_counts(list(counts.items())[:3])}; see {path}, then {remedy}."
    )


def log_rejected(corpus: catalog.Catalog) -> None:
    """Logs how many utterances were rejected, and why."""
    reasons = corpus.reasons()
    if reasons:
        num_rejected, num_candidates = sum(count for _, count in reasons), corpus.count_candidates()
        logging.warning(
            "%d of %d utterances were rejected: %s", num_rejected, num_candidates, _format_counts(reasons)
        )


def log_losses(
    labelled: Sequence[chunks.ChunkReceipt], numbers: str, left_out: collections.Counter[str]
) -> None:
    """Warns about transcripts with unclear numbers and about characters left out of the labels."""
    unclear = [chunk for chunk in labelled if chunk.num_unclear]
    if unclear:
        logging.warning(_UNCLEAR[numbers], sum(chunk.num_unclear for chunk in unclear), unclear[0].unclear)
    if left_out:
        message = "characters left out of the transcripts: %s; if a character was spoken, write it as a word"
        logging.warning(message, _format_counts(left_out.most_common()))


def log_vocabulary(collector: vocabularies.Collector, saved: vocabularies.Vocabularies) -> None:
    """Warns about labels missing from the vocabularies and about mixed traditional and simplified text."""
    for kind in ("tokens", "characters"):
        counts, vocabulary = getattr(collector, kind), getattr(saved, kind)
        unknown = vocabularies.most_frequent_unknown(counts, vocabulary, _NUM_LOGGED)
        if unknown:
            logging.warning("most frequent %s missing from the vocabulary: %s", kind, _format_counts(unknown))
    counts = collector.characters or collector.tokens
    simplified = normalisation.find_traditional(counts)
    if len(simplified) >= _MIN_TRADITIONAL:
        frequent = sorted(simplified, key=counts.get, reverse=True)[:_NUM_LOGGED]
        logging.warning(
            "the transcripts contain %d traditional characters whose simplified forms also occur, so words "
            "have two spellings: %s; convert the transcripts, for example with OpenCC (opencc -c t2s)",
            sum(counts[character] for character in simplified),
            ", ".join(f"{old} ({counts[old]}) for {simplified[old]}" for old in frequent),
        )


def _format_counts(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts)


def write(
    directory: str,
    settings: sharding.RecordSettings,
    label_config: labelling.LabelConfig,
    shards: Sequence[shard_statistics.ShardStatistics],
    corpus: catalog.Catalog,
    left_out: collections.Counter[str],
) -> dataset_info.DatasetInfo:
    """Writes the files next to the shards, except dataset_info.json, which must be written last.

    Returns the contents of dataset_info.json.
    """
    saved, totals, sentences = settings.vocabularies, shard_statistics.add_up(shards), corpus.sentences()
    splits = {}
    for split, total in totals.items():
        split_shards = [shard for shard in shards if shard.split == split]
        counts = (*sentences.get(split, (0, {})), shard_statistics.count_shared_speakers(totals, split))
        splits[split] = shard_statistics.make_split_info(total, split_shards, *counts)
    training = totals.get("train", shard_statistics.ShardStatistics())
    mean, stddev = training.feature_moments()
    known_tokens = saved.tokens.tokens[1:]  # the first token is <unk>
    info = dataset_info.DatasetInfo(
        frontend=settings.frontend,
        fbank_dtype=settings.fbank_dtype,
        token_type=label_config.token_type,
        tokens_sha256=saved.tokens.sha256,
        characters_sha256=saved.characters.sha256,
        readings_sha256=saved.readings.sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        splits=splits,
        num_rejected=sum(count for _, count in corpus.reasons()),
        config_sha256=resumable.hash_json([settings.features_sha256(), dataclasses.asdict(label_config)]),
        bpe_sha256="" if saved.bpe is None else hashlib.sha256(saved.bpe).hexdigest(),
        exclude_sha256=settings.exclude_sha256,
        token_counts=(training.unknown_tokens, *(training.token_counts[token] for token in known_tokens)),
    )
    rejected = os.path.join(directory, dataset_info.REJECTED_FILE)
    report = os.path.join(directory, dataset_info.REPORT_FILE)
    saved.save(directory)
    _write_rejected(rejected, corpus)
    page.write(report, info, totals, corpus.rejected(), saved, left_out)
    hashes = {"rejected_sha256": files.sha256(rejected), "report_sha256": files.sha256(report)}
    return dataclasses.replace(info, **hashes)


def _write_rejected(path: str, corpus: catalog.Catalog) -> None:
    """Writes rejected.tsv with the columns utterance id, split, reason and audio path (empty for text)."""
    with files.writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("\t".join(dataset_info.REJECTED_COLUMNS) + "\n")
        for row in corpus.rejected():
            file.write("\t".join(map(files.escape_controls, row)) + "\n")
