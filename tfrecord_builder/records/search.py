"""One record of a data directory, by its utterance id."""

from __future__ import annotations

import dataclasses
import heapq
import os
from collections.abc import Iterator
from typing import Optional

import rapidfuzz

from tfrecord_builder import dataset_info, errors, files, manifest, schema
from tfrecord_builder.building import items
from tfrecord_builder.records import record_checks, record_file

_NUM_NEAR = 3


@dataclasses.dataclass(frozen=True)
class Found:
    """A record and where it lies.

    Attributes:
      shard: path of its shard.
      number: which record of the shard, from 0.
      utterance: what it was made of; None where the shard has no items beside it.
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
    """Finds a record.

    Args:
      data_dir: the data directory.
      info: what its dataset_info.json says.
      expected: what its records are like.
      utterance_id: whose record; None for the first one of train, or else of the first split.

    Raises:
      UserError: there is none of that id, its shard is missing, or the record is damaged.
    """
    suspect = None
    for split, path in _shards(data_dir, info):
        if utterance_id is not None and utterance_id not in _ids(path):
            continue
        for raw in _read(path):
            if utterance_id in (None, record_checks.utterance_id(raw.data or b"")):
                record = _open(path, raw, expected)
                return Found(record, split, path, raw.number, _find_utterance(path, record.utterance_id))
            if raw.problem and suspect is None:
                suspect = path, raw  # its id may be what is damaged
    if suspect and not _rejected_reason(data_dir, utterance_id):
        _open(*suspect, expected)
    raise errors.UserError(_unknown(data_dir, info, utterance_id))


def _shards(data_dir: str, info: dataset_info.DatasetInfo) -> Iterator[tuple[str, str]]:
    """Yields split and path of every shard, train first."""
    for split in sorted(info.splits, key=lambda name: (name != "train", name)):
        for shard in info.splits[split].shards:
            yield split, os.path.join(data_dir, shard.file)


def _ids(path: str) -> Iterator[str]:
    """Yields the ids of a shard: of its items, which are quickly read, or of the records themselves."""
    if files.exists(items.path_of(path)):
        yield from (item.utterance.utterance_id for item in items.read(path))
    else:
        yield from (record_checks.utterance_id(raw.data or b"") for raw in _read(path))


def _read(path: str) -> Iterator[record_file.RawRecord]:
    if not files.exists(path):
        raise errors.UserError(f"{path}: shard is missing, expected it; copy or build the data again.")
    with files.open_binary(path) as file:
        yield from record_file.RecordFile(file).records()


def _open(path: str, raw: record_file.RawRecord, expected: record_checks.Expected) -> schema.Record:
    problem = raw.problem
    try:
        if not problem:
            return record_checks.read_record(raw.data, expected)
    except record_checks.Damaged as error:
        problem = str(error)
    raise errors.UserError(
        f"{path}: record {raw.number} at byte {raw.offset}: {problem}, expected a whole record; "
        "see what else is wrong by python -m tfrecord_builder.verify."
    )


def _find_utterance(path: str, utterance_id: str) -> Optional[manifest.Utterance]:
    if not files.exists(items.path_of(path)):
        return None
    found = (item.utterance for item in items.read(path))
    return next((each for each in found if each.utterance_id == utterance_id), None)


def _unknown(data_dir: str, info: dataset_info.DatasetInfo, utterance_id: Optional[str]) -> str:
    if utterance_id is None:
        return f"{data_dir}: it has no record, expected one; build the data again."
    reason = _rejected_reason(data_dir, utterance_id)
    if reason:
        return (
            f"--utterance_id: {utterance_id} was left out of {data_dir} ({reason}), expected one with a "
            f"record; see {dataset_info.REJECTED_FILE}."
        )
    ids = (each for _, path in _shards(data_dir, info) for each in _ids(path))
    near = heapq.nlargest(_NUM_NEAR, ids, key=lambda each: rapidfuzz.fuzz.ratio(each, utterance_id))
    return (
        f"--utterance_id: {utterance_id} is not in {data_dir}, expected one that is; "
        f"near it are {', '.join(near)}."
    )


def _rejected_reason(data_dir: str, utterance_id: str) -> str:
    path = os.path.join(data_dir, dataset_info.REJECTED_FILE)
    if not files.exists(path):
        return ""
    wanted = utterance_id.encode("utf-8", "surrogateescape")
    with files.open_binary(path) as file:
        rows = (line.rstrip(b"\r\n").split(b"\t") for line in file)
        return next(
            (row[2].decode("utf-8", "replace") for row in rows if row[0] == wanted and len(row) > 2), ""
        )
