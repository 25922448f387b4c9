"""Label checks: find wrong labels in a sample of records before training, or in all records if a step fails.

A record's labels can be computed from its pronunciation and transcript, so the checks recognise labels that
are one-hot, floats or shifted by one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Optional

import tensorflow as tf
from google.protobuf import message

from estimator_asr.experiment import model_directory
from estimator_asr.inputs import shard_cache
from estimator_asr.inputs import splits as splits_lib
from estimator_asr.models import losses
from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.data import dataset_info, vocabulary

SPLITS = ("train", "dev")
_SAMPLE_RECORDS, _SAMPLE_SHARDS = 100, 10  # sample sizes per split and data directory
_SHOWN_IDS = 6


def check_sample(
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    model: model_directory.ModelDirectory,
    splits: Sequence[str] = SPLITS,
) -> None:
    """Checks a sample of the labels that a model will learn; splits that the data lacks are skipped.

    Raises errors.UserError if a label is wrong; the message names the shard and the utterance.
    """
    with splits_lib.explain_damage(data_dirs, " or ".join(splits)):
        for shards in _shards_by_directory(infos, data_dirs, splits):
            sample = shards[:: -(-len(shards) // _SAMPLE_SHARDS)]
            _check_shards(sample, model, -(-_SAMPLE_RECORDS // len(sample)))


@contextlib.contextmanager
def explain_wrong_labels(
    infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str], model: model_directory.ModelDirectory
) -> Iterator[None]:
    """Converts a losses.WRONG_LABEL error in the block to an errors.UserError that names the utterance."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        if losses.WRONG_LABEL not in error.message:
            raise
        for shards in _shards_by_directory(infos, data_dirs, SPLITS):
            _check_shards(shards, model, None)
        line = next(line.strip() for line in error.message.splitlines() if losses.WRONG_LABEL in line)
        raise errors.UserError(
            f"{','.join(data_dirs)}: {line}, but each record by itself is correct; build the data again."
        ) from error


def _shards_by_directory(infos, data_dirs, splits) -> list[list[splits_lib.DataShard]]:
    return [
        splits_lib.list_shards(info, data_dir, split)
        for split in splits
        for info, data_dir in zip(infos, data_dirs)
        if split in info.splits and info.splits[split].shards
    ]


def _check_shards(shards, model, count):
    cache = shard_cache.ShardCache(model.config.input.shard_cache_gb)
    for shard in shards:
        for serialized in itertools.islice(cache.read_records(shard), count):
            problem = find_problem(serialized, model.tokens, model.characters)
            if problem:
                raise errors.UserError(f"{shard.path}: {problem}; build the data again.")


def find_problem(
    serialized: bytes, tokens: vocabulary.Vocabulary, characters: Optional[vocabulary.Vocabulary] = None
) -> str:
    """Returns the first problem in a record's labels (`utterance ID: WHAT is GOT, expected WANT`), or "".

    If `characters` is None, character_ids are not checked.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except message.DecodeError:
        return "a record is not a tf.train.Example"
    if copy_ids.WORDLESS in _text(features, "utterance_id") and not _values(features["token_ids"])[1]:
        return ""
    labels = [("token_ids", _text(features, "pronunciation").split(), tokens)]
    if "mark_ids" in features:
        labels = []  # texts with marks have no tokens
    # character_ids is empty if the utterance's hanzi and pinyin cannot be paired.
    if characters is not None and _values(features["character_ids"])[1]:
        labels.append(("character_ids", _text(features, "transcript").replace(" ", ""), characters))
    for name, text, inventory in labels:
        problem = _describe_problem(name, *_values(features[name]), inventory.encode(text), inventory)
        if problem:
            return f"utterance {_text(features, 'utterance_id')}: {problem}"
    return ""


def _describe_problem(name, kind, ids, expected, inventory):
    wanted = _join(expected) or "ids"
    if kind != "int64":
        return f"type of {name} is {kind} ({_join(ids)}), expected int64"
    if not ids:
        return f"{name} is empty, expected {wanted}"
    if ids == expected:
        return ""
    if _is_one_hot(ids, inventory):
        return f"{name} is one-hot ({len(ids)} numbers, of which {sum(ids)} are 1), expected {wanted}"
    for shift in (1, -1):
        if expected and ids == [label + shift for label in expected]:
            return f"{name} is {_join(ids)}, shifted by {shift:+d}, expected {wanted}"
    for label in ids:
        if not 0 <= label < inventory.size:
            blank = " (the blank)" if name == "token_ids" and label == inventory.blank_id else ""
            return f"{name} contains {label}{blank}, expected 0 to {inventory.size - 1}"
    return _describe_difference(name, ids, expected, inventory) if expected else ""


def _is_one_hot(ids, inventory):
    """Returns True if the ids are one-hot rows as wide as the vocabulary, with or without the blank."""
    for width in (inventory.size, inventory.num_classes):
        rows = [sorted(ids[begin : begin + width]) for begin in range(0, len(ids), width)]
        if all(row == [0] * (width - 1) + [1] for row in rows):
            return True
    return False


def _describe_difference(name, ids, expected, inventory):
    pairs = enumerate(itertools.zip_longest(ids, expected))
    place, pair = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
    texts = [None if item is None else f"{item} ({inventory.decode([item])[0]})" for item in pair]
    got, want = texts[0] or "missing", texts[1] or "no label"
    return f"{name}[{place}] is {got}, expected {want}, as in the record's text"


def _values(feature):
    kind = feature.WhichOneof("kind") or "int64_list"
    return kind.removesuffix("_list"), list(getattr(feature, kind).value)


def _text(features, name):
    return b"".join(features[name].bytes_list.value).decode("utf-8", "replace")


def _join(ids):
    shown = " ".join(map(str, ids[:_SHOWN_IDS]))
    return f"{shown} ..." if len(ids) > _SHOWN_IDS else shown
