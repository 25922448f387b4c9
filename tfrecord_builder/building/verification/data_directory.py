"""Checks the files and records of a data directory against its dataset_info.json."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.building.verification import stored_records
from tfrecord_builder.data import dataset_info, readings, recordings, vocabulary
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.storage import files

# Kinds of problems, worded to fit into messages such as "and 12 more damaged records".
FILES = "file problems"
DAMAGED = "damaged records"
WRONG = "wrong records"
SAMPLE = "records that differ from their audio"

_ADVICE = "copy or build the data again"


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem: its kind, the path of the file, and the text that follows the path in the message."""

    kind: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def locate(record: stored_records.RawRecord) -> str:
    """Describes where a record is: its index (the first is 0), byte offset and, if readable, utterance id."""
    utterance_id = stored_records.utterance_id(record.data or b"")
    utterance = f" (utterance {utterance_id})" if utterance_id else ""
    return f"record {record.number} at byte {record.offset}{utterance}"


def load_vocabularies(data_dir: str, info: dataset_info.DatasetInfo) -> Optional[vocabularies.Vocabularies]:
    """Loads the vocabularies; returns None if any file is unreadable or was not used for the records."""
    try:
        saved = vocabularies.Vocabularies(
            vocabulary.Vocabulary.load(os.path.join(data_dir, dataset_info.TOKENS_FILE)),
            vocabulary.Vocabulary.load(os.path.join(data_dir, dataset_info.CHARACTERS_FILE)),
            readings.Readings.load(os.path.join(data_dir, dataset_info.READINGS_FILE)),
        )
    except (errors.UserError, OSError):
        return None
    is_same = (saved.tokens.sha256, saved.characters.sha256) == (info.tokens_sha256, info.characters_sha256)
    return saved if is_same else None


def check(
    data_dir: str,
    info: dataset_info.DatasetInfo,
    saved: Optional[vocabularies.Vocabularies],
    advance: Callable[[int], object],
) -> Iterator[Problem]:
    """Yields each problem as soon as it is found.

    `saved` is the result of load_vocabularies; if it is None, labels and features are not checked. `advance`
    is called after each record with the number of bytes read for that record.
    """
    for name, sha256 in _sidecar_files(info).items():
        path = os.path.join(data_dir, name)
        try:
            if sha256:  # empty if the data has no such file
                yield from _check_sha256(path, files.sha256(path), sha256)
        except OSError as error:
            yield _unreadable(path, error, "file")
    expected = None
    if saved:
        expected = stored_records.RecordSpec(saved.tokens, saved.characters, info.frontend, info.fbank_dtype)
    else:
        text = "labels and features were not checked, because a vocabulary is missing or damaged"
        yield Problem(FILES, data_dir, text)
    with contextlib.closing(sqlite3.connect("")) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("CREATE TABLE places (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")
        for shard in info.shards:
            path = os.path.join(data_dir, shard.file)
            try:
                with files.open_binary(path) as file:
                    reader = stored_records.RecordFile(file)
                    yield from _check_shard(reader, path, shard, expected, database, advance)
            except OSError as error:
                yield _unreadable(path, error, "shard")


def _sidecar_files(info: dataset_info.DatasetInfo) -> dict[str, str]:
    """Returns the expected sha256 of each file that is not a shard, keyed by file name."""
    return {
        dataset_info.TOKENS_FILE: info.tokens_sha256,
        dataset_info.CHARACTERS_FILE: info.characters_sha256,
        dataset_info.READINGS_FILE: info.readings_sha256,
        dataset_info.BPE_FILE: info.bpe_sha256,
        dataset_info.REJECTED_FILE: info.rejected_sha256,
        dataset_info.REPORT_FILE: info.report_sha256,
        **{recordings.path_of(shard.file): shard.items_sha256 for shard in info.shards},
    }


def _check_shard(
    reader: stored_records.RecordFile,
    path: str,
    shard: dataset_info.ShardInfo,
    expected: Optional[stored_records.RecordSpec],
    database: sqlite3.Connection,
    advance: Callable[[int], object],
) -> Iterator[Problem]:
    num_records, is_complete = 0, True
    for raw in reader.records():
        is_complete = raw.data is not None
        num_records += is_complete
        if raw.problem:
            consequence = "" if is_complete else "; the records after it cannot be read"
            yield Problem(DAMAGED, path, f"{locate(raw)}: {raw.problem}{consequence}")
        elif expected:
            for text in _check_record(raw, path, expected, database):
                yield Problem(WRONG, path, f"{locate(raw)}: {text}")
        advance(reader.num_bytes - raw.offset)
    sha256 = reader.finish()
    if reader.num_bytes != shard.num_bytes:
        text = f"shard has {reader.num_bytes} bytes, expected {shard.num_bytes}; {_ADVICE}"
        yield Problem(FILES, path, text)
    if is_complete and num_records != shard.num_records:
        text = f"shard has {num_records} records, expected {shard.num_records}; {_ADVICE}"
        yield Problem(FILES, path, text)
    yield from _check_sha256(path, sha256, shard.sha256)


def _check_record(
    raw: stored_records.RawRecord,
    path: str,
    expected: stored_records.RecordSpec,
    database: sqlite3.Connection,
) -> Iterator[str]:
    """Yields the problems in a record; stores its id on disk, because there may be millions of ids."""
    try:
        record = stored_records.read_record(raw.data, expected)
    except stored_records.DamagedRecordError as problem:
        yield str(problem)
        return
    yield from stored_records.problems(record, expected)
    row = (record.utterance_id, f"record {raw.number} of {os.path.basename(path)}")
    if not database.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", row).rowcount:
        (first,) = database.execute("SELECT place FROM places WHERE id = ?", row[:1]).fetchone()
        yield f"utterance id is already used by {first}; ids must be unique"


def _check_sha256(path: str, sha256: str, expected: str) -> Iterator[Problem]:
    if sha256 != expected:
        text = f"sha256 is {sha256[:16]}..., expected {expected[:16]}...; {_ADVICE}"
        yield Problem(FILES, path, text)


def _unreadable(path: str, error: OSError, name: str) -> Problem:
    is_missing = isinstance(error, FileNotFoundError)
    text = "is missing" if is_missing else f"cannot be read ({error.strerror or error})"
    return Problem(FILES, path, f"{name} {text}; {_ADVICE}")
