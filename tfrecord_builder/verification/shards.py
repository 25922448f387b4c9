"""The shards of a data directory: their bytes, and every record in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Optional

from tfrecord_builder import dataset_info, files
from tfrecord_builder.records import record_checks, record_file
from tfrecord_builder.verification import duplicate_index, problems, recount


class ShardChecker:
    """Checks one shard after the other.

    Attributes:
      num_records: how many records were read so far.
    """

    def __init__(
        self,
        data_dir: str,
        expected: Optional[record_checks.Expected],
        seen: duplicate_index.Sightings,
        advance: Callable[[int], object],
    ):
        """Takes what the records must agree with, and what is called with the number of bytes read.

        Without `expected` only the bytes are checked.
        """
        self.num_records = 0
        self._data_dir = data_dir
        self._expected = expected
        self._seen = seen
        self._advance = advance

    def check(
        self, shard: dataset_info.ShardInfo, split: str, counted: recount.Recount
    ) -> Iterator[problems.Problem]:
        """Yields what is wrong with a shard, and counts the records that are right."""
        path = os.path.join(self._data_dir, shard.file)
        try:
            yield from self._check_file(path, shard, split, counted)
        except OSError as error:
            yield problems.unreadable(path, error, "shard")

    def _check_file(
        self, path: str, shard: dataset_info.ShardInfo, split: str, counted: recount.Recount
    ) -> Iterator[problems.Problem]:
        with files.open_binary(path) as file:
            reader = record_file.RecordFile(file)
            num_records, is_whole = 0, True
            for raw in reader.records():
                is_whole = raw.data is not None
                num_records += is_whole
                yield from self._check_record(raw, path, split, counted)
                self._advance(reader.num_bytes - raw.offset)
            sha256 = reader.finish()
        self.num_records += num_records
        for name, found, wanted in (
            ("bytes", reader.num_bytes, shard.num_bytes),
            ("records", num_records, shard.num_records),
        ):
            if found != wanted and (is_whole or name == "bytes"):
                what = f"shard has {found} {name}, expected {wanted}; {problems.AGAIN}"
                yield problems.Problem(problems.FILES, path, what)
        if sha256 != shard.sha256:
            yield problems.sha256_problem(path, sha256, shard.sha256)

    def _check_record(
        self, raw: record_file.RawRecord, path: str, split: str, counted: recount.Recount
    ) -> Iterator[problems.Problem]:
        if raw.problem:
            name = record_checks.utterance_id(raw.data or b"")
            rest = "" if raw.data is not None else "; nothing behind it can be read"
            yield self._problem(problems.DAMAGED, path, raw, name, f"{raw.problem}{rest}")
        elif self._expected:
            try:
                record = record_checks.read_record(raw.data, self._expected)
            except record_checks.Damaged as problem:
                name = record_checks.utterance_id(raw.data)
                yield self._problem(problems.WRONG, path, raw, name, f"{problem}")
                return
            found = [*record_checks.problems(record, self._expected), *self._find_twin(raw, record, path)]
            for what in found:
                yield self._problem(problems.WRONG, path, raw, record.utterance_id, what)
            if not found:
                self._seen.see_sentence(split, record.transcript or record.pronunciation)
                counted.count(record)

    def _find_twin(self, raw: record_file.RawRecord, record, path: str) -> Iterator[str]:
        first = self._seen.see_utterance(record.utterance_id, os.path.basename(path), raw.number)
        if first:
            yield f"its utterance id is that of record {first[1]} of {first[0]}, expected one of its own"

    def _problem(self, kind: str, path: str, raw, utterance_id: str, what: str) -> problems.Problem:
        where = problems.describe(raw.number, raw.offset, utterance_id)
        return problems.Problem(kind, path, f"{where}: {what}")
