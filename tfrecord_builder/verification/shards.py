"""The shards of a data directory: their bytes, every record in them, and duplicate utterance ids."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Optional

from tfrecord_builder.data import dataset_info
from tfrecord_builder.records import record_checks, record_file
from tfrecord_builder.storage import files
from tfrecord_builder.verification import problems


class ShardChecker:
    """Checks one shard after the other.

    Args:
        data_dir: the data directory.
        expected: what the records must agree with; None to check bytes alone.
        advance: called with the number of bytes read.
    """

    def __init__(
        self, data_dir: str, expected: Optional[record_checks.Expected], advance: Callable[[int], object]
    ):
        self._data_dir = data_dir
        self._expected = expected
        self._advance = advance
        # The first place of each utterance id, in a temporary file: memory does not grow with the data.
        self._database = sqlite3.connect("")
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE places (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")

    def check(self, shard: dataset_info.ShardInfo) -> Iterator[problems.Problem]:
        """Yields the problems of a shard."""
        path = os.path.join(self._data_dir, shard.file)
        try:
            with files.open_binary(path) as file:
                yield from self._check_file(record_file.RecordFile(file), path, shard)
        except OSError as error:
            yield problems.unreadable(path, error, "shard")

    def _check_file(
        self, reader: record_file.RecordFile, path: str, shard: dataset_info.ShardInfo
    ) -> Iterator[problems.Problem]:
        num_records, is_complete = 0, True
        for raw in reader.records():
            is_complete = raw.data is not None
            num_records += is_complete
            for kind, text in self._check_record(raw, path):
                name = record_checks.utterance_id(raw.data or b"")
                location = problems.locate(raw.number, raw.offset, name)
                yield problems.Problem(kind, path, f"{location}: {text}")
            self._advance(reader.num_bytes - raw.offset)
        sha256 = reader.finish()
        counts = [("bytes", reader.num_bytes, shard.num_bytes)]
        if is_complete:
            counts.append(("records", num_records, shard.num_records))
        for what, found, expected in counts:
            if found != expected:
                text = f"shard has {found} {what}, expected {expected}; {problems.ADVICE}"
                yield problems.Problem(problems.FILES, path, text)
        if sha256 != shard.sha256:
            yield problems.wrong_sha256(path, sha256, shard.sha256)

    def _check_record(self, raw: record_file.RawRecord, path: str) -> Iterator[tuple[str, str]]:
        """Yields kind and text of each problem."""
        if raw.problem:
            lost = "" if raw.data is not None else "; no record after it can be read"
            yield problems.DAMAGED, f"{raw.problem}{lost}"
        elif self._expected:
            try:
                record = record_checks.read_record(raw.data, self._expected)
            except record_checks.Damaged as problem:
                yield problems.WRONG, str(problem)
                return
            for text in record_checks.problems(record, self._expected):
                yield problems.WRONG, text
            place = f"record {raw.number} of {os.path.basename(path)}"
            first = self._first_place(record.utterance_id, place)
            if first:
                yield problems.WRONG, f"utterance id is a duplicate of {first}, expected a unique one"

    def _first_place(self, utterance_id: str, place: str) -> Optional[str]:
        """Returns the place of an earlier record with this id; None, and notes the place, if it is new."""
        row = (utterance_id, place)
        if self._database.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", row).rowcount:
            return None
        return self._database.execute("SELECT place FROM places WHERE id = ?", row[:1]).fetchone()[0]
