"""Search for one record of a data directory by its utterance id."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, manifest, recordings, schema
from tfrecord_builder.records import items, record_checks, record_file
from tfrecord_builder.storage import files


@dataclasses.dataclass(frozen=True)
class Found:
    """A record and its place.

    Attributes:
        shard: path of its shard.
        number: its number in the shard, from 0.
        utterance: what it was made of; None if the shard has no .jsonl.
    """

    record: schema.Record
    split: str
    shard: str
    number: int
    utterance: Optional[manifest.Utterance]


def find(
    data_dir: str,
    info: dataset_info.DatasetInfo,
    expected: record_checks.Expected,
    utterance_id: Optional[str] = None,
) -> Found:
    """Finds the record of an utterance, or without an id the first one of train (or of another split).

    Raises:
        UserError: there is no such record, its shard is missing, or the record is damaged.
    """
    damaged = None
    for split, path in _shards(data_dir, info):
        utterances = _read_utterances(path)
        if utterance_id is not None and utterances is not None and utterance_id not in utterances:
            continue
        for raw in _read(path):
            if utterance_id in (None, record_checks.utterance_id(raw.data or b"")):
                record = _parse(path, raw, expected)
                return Found(record, split, path, raw.number, (utterances or {}).get(record.utterance_id))
            if raw.problem:
                damaged = damaged or (path, raw)  # its id may be what is damaged
    reason = _rejection_reason(data_dir, utterance_id)
    if damaged and not reason:
        _parse(*damaged, expected)
    raise errors.UserError(_not_found(data_dir, utterance_id, reason))


def _shards(data_dir: str, info: dataset_info.DatasetInfo) -> Iterator[tuple[str, str]]:
    """Yields split and path of every shard, train first."""
    for split in sorted(info.splits, key=lambda name: (name != "train", name)):
        for shard in info.splits[split].shards:
            yield split, os.path.join(data_dir, shard.file)


def _read_utterances(path: str) -> Optional[dict[str, manifest.Utterance]]:
    """Reads the .jsonl of a shard, which is much smaller than the shard; returns None if it is missing."""
    if not files.exists(recordings.path_of(path)):
        return None
    return {item.utterance.utterance_id: item.utterance for item in items.read(path)}


def _read(path: str) -> Iterator[record_file.RawRecord]:
    if not files.exists(path):
        raise errors.UserError(f"{path}: shard is missing, expected it; copy or build the data again.")
    with files.open_binary(path) as file:
        yield from record_file.RecordFile(file).records()


def _parse(path: str, raw: record_file.RawRecord, expected: record_checks.Expected) -> schema.Record:
    problem = raw.problem
    try:
        if not problem:
            return record_checks.read_record(raw.data, expected)
    except record_checks.Damaged as error:
        problem = str(error)
    raise errors.UserError(
        f"{path}: record {raw.number} at byte {raw.offset}: {problem}, expected an intact record; "
        "run python -m tfrecord_builder.verify to find all damage."
    )


def _not_found(data_dir: str, utterance_id: Optional[str], reason: str) -> str:
    if utterance_id is None:
        return f"{data_dir}: number of records is 0, expected one or more; build the data again."
    if reason:
        return (
            f"--utterance_id: {utterance_id} was rejected ({reason}), expected the id of a record; "
            f"see {os.path.join(data_dir, dataset_info.REJECTED_FILE)}."
        )
    return (
        f"--utterance_id: {utterance_id} is missing in {data_dir}, expected the id of a record; "
        "omit it to see the first record."
    )


def _rejection_reason(data_dir: str, utterance_id: Optional[str]) -> str:
    path = os.path.join(data_dir, dataset_info.REJECTED_FILE)
    if not files.exists(path):
        return ""
    with files.open_binary(path) as file:
        rows = (line.decode("utf-8", "surrogateescape").rstrip("\r\n").split("\t") for line in file)
        return next((row[2] for row in rows if row[0] == utterance_id and len(row) > 2), "")
